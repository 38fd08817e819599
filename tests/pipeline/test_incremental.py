"""Updates of a warehouse: in whatever order traces arrive, and wherever it is killed, it ends up equal to one batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.errors import NoWarehouseError
from leveret.pipeline import compact, incremental
from leveret.pipeline.computing import work
from leveret.pipeline.computing.worker import TaskError
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.traces import header, lives, text, write
from tests.pipeline.updates import at_once, bring_up_to_date, rows

WHOLE = lives(12)


class Killed(BaseException):
    """An exception that no code expects."""


class Killer:
    """An audit hook that ends the work at a file operation in a folder, as if the process had been killed there."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.left = -1

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None or event not in ("open", "os.mkdir", "os.link", "os.rename", "os.remove"):
            return
        if str(arguments[0]).startswith(str(self.folder)):
            self.step()

    def step(self) -> None:
        if self.left == 0:
            self.folder = None
            raise Killed
        self.left -= 1

    def run(self, folder: Path, operations: int, work: Callable[[], object]) -> bool:
        """Do the work, killed before its file operation number `operations`; return whether it finished first."""
        self.folder, self.left = folder, operations
        try:
            work()
        except Killed:
            return False
        finally:
            self.folder = None
        return True


@pytest.fixture(scope="module")
def killer() -> Killer:
    # An audit hook stays until the process ends; it does nothing while it has no folder.
    killer = Killer()
    sys.addaudithook(killer)
    return killer


def comings(folder: Path) -> Iterator[None]:
    """Write traces in rounds: late, in pieces and out of order, growing, cut, twice, foreign and then repaired."""
    write(folder / "b-2.jsonl", [header("b"), *WHOLE[20:]])
    (folder / "grows.jsonl").write_text(text([header("grows"), *WHOLE[:30]])[:-9])
    (folder / "mended.jsonl").write_text("{")
    yield
    write(folder / "a.jsonl.gz", [header("a", "gw1"), *WHOLE[:9]])
    write(folder / "b-1.jsonl", [header("b"), *WHOLE[:20]])
    (folder / "grows.jsonl").write_text(text([header("grows"), *WHOLE]))
    yield
    write(folder / "a-0.jsonl", [header("a", "gw0"), *WHOLE])
    write(folder / "mended.jsonl", [header("mended"), *WHOLE])
    yield


@pytest.fixture(scope="module")
def one_batch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """All tables, after all traces have arrived and are ingested at once."""
    folder = tmp_path_factory.mktemp("batch")
    for _ in comings(made(folder / "traces")):
        pass
    return at_once(folder / "traces", folder / "warehouse")


def test_a_history_of_updates_equals_one_batch(tmp_path: Path, one_batch: dict[str, list[str]]) -> None:
    warehouse = Warehouse(tmp_path / "history")
    answered = [bring_up_to_date(tmp_path / "traces", warehouse) for _ in comings(made(tmp_path / "traces"))]

    assert [sorted(runs) for runs in answered] == [["", "b", "grows"], ["a", "b", "grows"], ["", "a", "mended"]]
    assert rows(warehouse) == one_batch


def test_a_second_update_does_nothing(tmp_path: Path) -> None:
    write(tmp_path / "traces" / "a.jsonl", [header("a"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    bring_up_to_date(tmp_path / "traces", warehouse)
    before = sorted(tmp_path.rglob("*"))

    assert incremental.ingest(warehouse, [tmp_path / "traces"]).unchanged == 1
    assert incremental.update(warehouse) == []

    assert sorted(tmp_path.rglob("*")) == before


def test_one_more_run_reads_and_writes_its_own_events_alone(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    for number in range(3):
        write(tmp_path / "traces" / f"r{number}.jsonl", [header(f"r{number}"), *WHOLE])
        bring_up_to_date(tmp_path / "traces", warehouse)

    state = warehouse.state()

    assert len({run.segments[0].part for run in state.runs.values()}) == 3
    assert [answer.runs for answer in state.answers.values()] == [["r0"], ["r1"], ["r2"]]


@pytest.mark.parametrize("operations", [0, 2, 7, 30])
def test_killed_at_a_file_operation_it_is_run_again(
    tmp_path: Path, killer: Killer, one_batch: dict[str, list[str]], operations: int
) -> None:
    folder, warehouse = made(tmp_path / "traces"), Warehouse(tmp_path / "warehouse")
    survived = [
        killer.run(tmp_path / "warehouse", operations, lambda: bring_up_to_date(folder, warehouse))
        for _ in comings(folder)
    ]

    bring_up_to_date(folder, warehouse)

    assert not all(survived)
    assert rows(warehouse) == one_batch


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "killed"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "def kill(event, arguments):\n"
        f"    if event == 'open' and str(arguments[0]).endswith('r3.jsonl') and not os.path.exists({str(mark)!r}):\n"
        f"        os.mkdir({str(mark)!r})\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "if 'leveret.pipeline.computing.worker' in sys.orig_argv:\n"
        "    sys.addaudithook(kill)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(work, "_FEW_EVENTS", 0)
    for number in range(6):
        write(tmp_path / "traces" / f"r{number}.jsonl", [header(f"r{number}"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")

    incremental.ingest(warehouse, [tmp_path / "traces"], processes=2)
    incremental.update(warehouse, processes=1)

    assert mark.exists()
    assert rows(warehouse) == at_once(tmp_path / "traces", tmp_path / "batch")


def test_what_a_worker_cannot_do_is_an_error_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_FEW_EVENTS", 0)
    for number in range(2):
        write(tmp_path / "traces" / f"r{number}.jsonl", [header(f"r{number}"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    incremental.ingest(warehouse, [tmp_path / "traces"], processes=1)
    for part in (tmp_path / "warehouse" / "events").iterdir():
        part.unlink()

    with pytest.raises(TaskError, match="FileNotFoundError"):
        incremental.update(warehouse, processes=2)


def test_a_damaged_line_counts_as_a_cut(tmp_path: Path) -> None:
    lines = text([header("a"), *WHOLE]).splitlines(keepends=True)
    lines.insert(9, '{"kind":"enq\n')
    (tmp_path / "a.jsonl").write_text("".join(lines))
    warehouse = Warehouse(tmp_path / "warehouse")

    done = incremental.ingest(warehouse, [tmp_path / "a.jsonl"])

    assert list(done.truncated) == [str(tmp_path / "a.jsonl")]
    assert warehouse.state().files[str(tmp_path / "a.jsonl")].is_truncated


def test_merged_parts_hold_the_same_rows(tmp_path: Path, killer: Killer) -> None:
    folder, warehouse = made(tmp_path / "traces"), Warehouse(tmp_path / "warehouse")
    for _ in comings(folder):
        bring_up_to_date(folder, warehouse)
    before = rows(warehouse)

    killed = [killer.run(tmp_path / "warehouse", n, lambda: compact(warehouse)) for n in (2, 9)]
    merged = compact(warehouse)
    warehouse.vacuum(older_than_s=0)

    assert killed == [False, False]
    assert (merged > 1, len(warehouse.state().event_parts()), len(warehouse.state().answers)) == (True, 1, 1)
    assert rows(warehouse) == before
    assert bring_up_to_date(folder, warehouse) == []


def test_two_processes_that_ingest_the_same_files_store_them_once(tmp_path: Path) -> None:
    write(tmp_path / "traces" / "a.jsonl", [header("a"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    before = warehouse.state()
    bring_up_to_date(tmp_path / "traces", warehouse)

    late = incremental.ingest(warehouse, [tmp_path / "traces"], state=before)

    assert (late.files, late.unchanged) == ({}, 1)
    assert read_table(warehouse, "events").num_rows == len(WHOLE)


def test_a_table_that_does_not_exist_is_named(tmp_path: Path) -> None:
    write(tmp_path / "traces" / "a.jsonl", [header("a"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    incremental.ingest(warehouse, [tmp_path / "traces"])

    with pytest.raises(KeyError, match="unknown table 'copys'; did you mean 'copies'"):
        read_table(warehouse, "copys")
    with pytest.raises(NoWarehouseError, match="nowhere is not a warehouse"):
        read_table(Warehouse(tmp_path / "nowhere"), "copies")


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder
