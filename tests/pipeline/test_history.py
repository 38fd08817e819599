"""What changed over the last runs: each change is reported with the commit since which it is so, and no other."""

from __future__ import annotations

import re
from functools import partial
from html import unescape
from pathlib import Path

import pytest

from leveret.cli import main
from leveret.pipeline import Warehouse, ingest, read_table, update
from leveret.pipeline.history import History, history
from leveret.pipeline.reading import Read
from leveret.pipeline.report import report
from leveret.pipeline.report.subject import choose, up_to
from tests.pipeline import shop_history
from tests.pipeline.in_memory import reader_of_files
from tests.pipeline.shop_history import DEAD_LETTERED_FROM, LEAKS_FROM, REDELIVERED_FROM, commit
from tests.pipeline.traces import Line, header, lives, write

TEST = "tests/test_shop.py::test"
LEAK = (
    f"since {commit(LEAKS_FROM)[:12]}, 30 runs ago: audit slowly leaks: messages left over grow from run to run, "
    f"0 to 31 in {TEST}_audit"
)
REDELIVERED = (
    f"since {commit(REDELIVERED_FROM)[:12]}, 23 runs ago: redeliveries in orders rose from 5 to 20 in {TEST}_orders"
)
PATH = (
    f"since {commit(DEAD_LETTERED_FROM)[:12]}, 15 runs ago: new path invoices to orders.dead: 1 dead letter (rejected) "
    f"in {TEST}_invoices"
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("history")
    shop_history.record(folder / "traces")
    warehouse = Warehouse(folder / "warehouse")
    ingest(warehouse, folder / "traces", processes=1)
    update(warehouse, processes=1)
    return warehouse


@pytest.fixture
def read(warehouse: Warehouse) -> Read:
    return partial(read_table, warehouse)


def _history(read: Read, name: str | None = None) -> History:
    runs = read("runs")
    return history(read, up_to(runs, choose(runs, name)))


def test_each_change_of_forty_runs_has_its_commit_and_flaky_noise_has_none(read: Read) -> None:
    columns = ("kind", "queue", "measure", "to_queue", "before", "after", "since_commit", "commit_before")

    rows = {tuple(row[name] for name in columns) for row in read("changes").to_pylist()}

    orders, invoices, audit = (
        (commit(run), commit(run - 1)) for run in (REDELIVERED_FROM, DEAD_LETTERED_FROM, LEAKS_FROM)
    )
    assert rows == {
        ("step", "orders", "redeliveries", None, 5, 20, *orders),
        ("step", "invoices", "dead_letters", "orders.dead", 0, 1, *invoices),
        ("growth", "audit", "leaked", None, 0, 31, *audit),
    }


def test_report_begins_with_what_changed_and_since_which_commit(warehouse: Warehouse, read: Read) -> None:
    page = report(read, warehouse.state().files)

    first = page.partition("<section ")[2].partition("</section>")[0]
    text = unescape(re.sub(r"<[^>]*>", " ", first.replace("<wbr>", "")))
    said = re.sub(r" ([,.:])", r"\1", " ".join(text.split()))
    assert said.endswith(
        "What changed over the last 40 runs "
        + " ".join(f"{line[:1].upper()}{line[1:]}." for line in (PATH, LEAK, REDELIVERED))
    )


def test_diff_says_the_same_as_the_report(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    main(["pipeline", "diff", commit(39), commit(40), "-w", warehouse.url])

    assert capsys.readouterr().out.splitlines()[:3] == [PATH, LEAK, REDELIVERED]


def test_older_run_is_reported_with_what_had_changed_by_then(read: Read) -> None:
    causes = _history(read, commit(24)).causes

    assert [cause.commit for cause in causes] == [commit(LEAKS_FROM), commit(REDELIVERED_FROM)]
    assert [cause.runs_ago for cause in causes] == [14, 7]


def _runs(folder: Path, *runs: list[Line], commits: int = 1) -> Read:
    """Return a reader of these runs, of which as many as `commits` have the same commit."""
    for number, lines in enumerate(runs):
        about = header(f"run-{number:03}", commit=f"commit-{number // commits:03}")
        write(
            folder / f"{number:03}.jsonl",
            [about | {"started": f"2026-05-{1 + number // 24:02}T{number % 24:02}:00:00Z"}, *lines],
        )
    return reader_of_files(folder)[0]


def test_all_changes_of_one_commit_are_one_cause(tmp_path: Path) -> None:
    few, many = lives(3), lives(9)

    (cause,) = _history(_runs(tmp_path, *[few] * 10, *[many] * 6)).causes

    assert str(cause) == ("since commit-010, 5 runs ago: messages published to orders rose from 3 to 9 in test_it")


def test_change_between_two_runs_of_a_commit_is_that_of_a_run(tmp_path: Path) -> None:
    (cause,) = _history(_runs(tmp_path, *[lives(2)] * 9, *[lives(3)] * 7, commits=2)).causes

    assert str(cause).startswith(
        "since run run-009, 6 runs ago, which has the commit of the run before it, commit-004: "
    )


def test_number_that_always_grew_has_no_commit(tmp_path: Path) -> None:
    (cause,) = _history(_runs(tmp_path, *[lives(number) for number in range(1, 13)])).causes

    assert str(cause) == (
        "in all of the last 12 runs: messages published to orders grow from run to run, 1 to 12 in test_it"
    )


def test_test_that_fails_since_a_commit_comes_first(tmp_path: Path) -> None:
    failing = [
        {**line, "attrs": '{"outcome":"failed","duration":0.1}'} if line["kind"] == "test_end" else line
        for line in lives(9)
    ]

    (cause,) = _history(_runs(tmp_path, *[lives(3)] * 10, *[failing] * 6)).causes

    assert str(cause) == (
        "since commit-010, 5 runs ago: test_it fails, and passed before; "
        "messages published to orders rose from 3 to 9 in test_it"
    )


def test_runs_in_which_a_test_was_skipped_count_no_zeros(tmp_path: Path) -> None:
    ends = {"kind": "test_end", "attrs": '{"outcome":"skipped","duration":0.1}'}
    skipped = [{**line, **ends} if line["kind"] == "test_end" else line for line in (*lives(3)[:1], lives(3)[-1])]

    (cause,) = _history(_runs(tmp_path, *[lives(3)] * 10, *[skipped] * 6)).causes

    assert str(cause) == "since commit-010, 5 runs ago: test_it is skipped, and passed before"


def test_only_the_last_hundred_runs_are_looked_at(tmp_path: Path) -> None:
    read = _runs(tmp_path, *[lives(1)] * 20, *[lives(2)] * 101)

    past = _history(read)

    assert (len(past.runs), past.causes) == (100, [])
    assert past.runs[-1] == "run-120"
