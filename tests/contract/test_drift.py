"""Locks of the runs in a warehouse: what they say, and which drift between commits they show."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from pytest_leveret.contract.lock import Lock, read
from pytest_leveret.contract.observing import Observer

from leveret import Broker
from leveret.cli import main
from leveret.pipeline import Warehouse, ingest
from leveret.trace.run import close_files
from tests.contract import drifting
from tests.contract.drifting import COMMITS, DRIFTED


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return drifting.fill(tmp_path_factory.mktemp("drift"), 10)


def drift(warehouse: Path, old: str, new: str) -> int:
    return main(["contract", "drift", str(warehouse), "--from", old, "--to", new])


def test_a_drift_is_found_between_its_commits_with_the_consumer_that_it_breaks(
    warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = drift(warehouse, COMMITS[DRIFTED - 1], COMMITS[DRIFTED])

    assert code == 1
    assert capsys.readouterr().out == (
        "breaking:\n"
        "  orders 'order.created': `total` is number, and was decimal; billing has received `total` as decimal\n"
    )


def test_no_other_commits_differ(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = [drift(warehouse, old, new) for old, new in pairwise(COMMITS) if new != COMMITS[DRIFTED]]

    assert codes == [0, 0, 0]
    assert capsys.readouterr().out == "no difference\n" * 3


def test_diff_lists_the_type_that_drift_calls_breaking_and_no_other(
    warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [main(["pipeline", "diff", old, new, "-w", str(warehouse)]) for old, new in pairwise(COMMITS)]

    assert codes == [int(new == COMMITS[DRIFTED]) for new in COMMITS[1:]]
    assert "messages orders order.created, body.total: decimal | number\n" in capsys.readouterr().out


def test_an_unknown_commit_is_refused(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert drift(warehouse, "nowhere", COMMITS[0]) == 2
    assert "'nowhere' matches no run and no commit" in capsys.readouterr().err


def test_the_lock_of_a_run_is_that_which_its_tests_would_write(tmp_path: Path) -> None:
    observed = Lock()
    drifting.record(tmp_path / "traces", 0, lambda broker: Observer(broker).read(observed))
    ingest(Warehouse(tmp_path / "warehouse"), [tmp_path / "traces"])

    assert main(["contract", "infer", str(tmp_path / "warehouse"), "--lock", str(tmp_path / "messages.lock")]) == 0

    assert (tmp_path / "messages.lock").read_text(encoding="utf-8") == observed.text()


def test_needs_that_were_measured_stay_in_the_lock(warehouse: Path, tmp_path: Path) -> None:
    path = tmp_path / "messages.lock"
    command = ["contract", "infer", str(warehouse), "--commit", COMMITS[0], "--lock", str(path)]
    main(command)
    lock = read(path)
    (message,) = lock.messages.values()
    message.consumers["billing", "billing"].needs = {"body.total": "decimal"}
    path.write_text(lock.text())

    main(command)

    assert read(path).text() == lock.text()


def test_runs_without_messages_that_count_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(trace_dir=tmp_path / "traces") as broker:
        # What no client has accepted is no contract, although the trace has its shape.
        broker.declare_queue("billing")
        broker.publish("", "billing", json={"id": 7})
    close_files()
    ingest(Warehouse(tmp_path / "warehouse"), [tmp_path / "traces"])

    assert main(["contract", "infer", str(tmp_path / "warehouse"), "--lock", str(tmp_path / "x.lock")]) == 2
    assert "no run has shapes of messages of clients in tests that have passed" in capsys.readouterr().err
