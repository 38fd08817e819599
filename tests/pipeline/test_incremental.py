"""Updates of a warehouse: in whatever order traces arrive, and wherever it is killed, it ends up equal to one batch."""

from __future__ import annotations

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


class Dying(Warehouse):
    """A warehouse whose process is killed at one of its commits, before or after it."""

    def __init__(self, place: Path, commits: float) -> None:
        super().__init__(place)
        self.left = commits

    def commit(self, *arguments: Any, **options: Any) -> None:
        if self.left < 0:
            raise Killed
        super().commit(*arguments, **options)
        self.left -= 1
        if self.left == -0.5:
            raise Killed


def survives(place: Path, commits: float, work: Callable[[Warehouse], object]) -> bool:
    """Do the work, killed at a commit; return whether it finished first."""
    try:
        work(Dying(place, commits))
    except Killed:
        return False
    return True


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


def test_one_more_run_leaves_the_files_of_others_alone(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    stored: list[set[Path]] = []
    for number in range(3):
        write(tmp_path / "traces" / f"r{number}.jsonl", [header(f"r{number}"), *WHOLE])
        bring_up_to_date(tmp_path / "traces", warehouse)
        state = warehouse.state()
        stored.append({Path(name, file.path) for name in state.tables for file in state.files_of(name)})

    assert stored[0] < stored[1] < stored[2]
    assert len(stored[2]) == 3 * len(stored[0])


@pytest.mark.parametrize("commits", [-1, 0, 0.5, 1, 1.5, 4, 9.5, 17, 17.5])
def test_killed_at_a_commit_it_is_run_again(tmp_path: Path, one_batch: dict[str, list[str]], commits: float) -> None:
    folder, place = made(tmp_path / "traces"), tmp_path / "warehouse"
    survived = [
        survives(place, commits, lambda warehouse: bring_up_to_date(folder, warehouse)) for _ in comings(folder)
    ]

    bring_up_to_date(folder, Warehouse(place))

    assert not all(survived)
    assert rows(Warehouse(place)) == one_batch


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
    for part in (tmp_path / "warehouse" / "events").glob("*.parquet"):
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


def test_merged_files_hold_the_same_rows(tmp_path: Path) -> None:
    folder, warehouse = made(tmp_path / "traces"), Warehouse(tmp_path / "warehouse")
    for _ in comings(folder):
        bring_up_to_date(folder, warehouse)
    before = rows(warehouse)

    merged = compact(warehouse)
    warehouse.vacuum(older_than_s=0)

    state = warehouse.state()
    assert merged > 1
    assert {len(state.files_of(name)) for name in state.tables} <= {0, 1}
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


def test_a_run_that_comes_while_the_tables_are_opened_is_computed_from_all_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        write(tmp_path / f"{name}.jsonl", [header(name), *lives(2)])
    warehouse, opened = Warehouse(tmp_path / "warehouse"), Warehouse._stored
    bring_up_to_date(tmp_path / "first.jsonl", warehouse)

    def opened_before_another_process_ingests(warehouse: Warehouse, name: str) -> Any:
        found = opened(warehouse, name)
        if name == "events":
            monkeypatch.setattr(Warehouse, "_stored", opened)
            incremental.ingest(Warehouse(warehouse.url), [tmp_path / "second.jsonl"], processes=1)
        return found

    monkeypatch.setattr(Warehouse, "_stored", opened_before_another_process_ingests)
    incremental.update(warehouse, processes=1)
    incremental.update(warehouse, processes=1)

    assert sorted(read_table(warehouse, "copies")["run"].to_pylist()) == ["first"] * 2 + ["second"] * 2


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
