"""A warehouse that is updated often keeps few files: updates merge small parts by themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from leveret.pipeline import compact, ingest, update
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.traces import header, lives, write


def ingest_one(warehouse: Warehouse, folder: Path, name: str, messages: int = 2) -> None:
    ingest(warehouse, [write(folder / f"{name}.jsonl", [header(name), *lives(messages)])], processes=1)
    update(warehouse, processes=1)


def test_an_update_merges_small_parts_once_there_are_many(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    names = [f"r{number}" for number in range(49)]
    for name in names:
        ingest(warehouse, [write(tmp_path / f"{name}.jsonl", [header(name), *lives(2)])], processes=1)
    assert len(warehouse.state().event_parts()) == 49

    ingest_one(warehouse, tmp_path, "last")

    state = warehouse.state()
    assert (len(state.event_parts()), len(state.answers)) == (1, 1)
    assert Counter(read_table(warehouse, "copies")["run"].to_pylist()) == dict.fromkeys([*names, "last"], 2)


def test_parts_that_are_not_small_are_left_alone(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest_one(warehouse, tmp_path, "large", messages=50)
    before = warehouse.state().runs["large"]
    for name in ("small", "smaller"):
        ingest_one(warehouse, tmp_path, name)

    assert compact(warehouse, small_events=100, processes=1) == 4

    state = warehouse.state()
    assert (state.runs["large"].segments, state.runs["large"].answer) == (before.segments, before.answer)
    assert (len(state.event_parts()), len(state.answers)) == (2, 2)
    assert compact(warehouse, small_events=100, processes=1) == 0


def test_a_compaction_drops_the_rows_of_runs_that_were_computed_again(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    for name in ("a", "b"):
        ingest_one(warehouse, tmp_path, name)
    ingest_one(warehouse, tmp_path / "more", "a", messages=4)

    compact(warehouse, processes=1)
    warehouse.vacuum(older_than_s=0)

    assert [stored.path.partition("/")[0] for stored in warehouse.storage.list("copies")] == ["copies"]
    assert Counter(read_table(warehouse, "copies")["run"].to_pylist()) == {"a": 4, "b": 2}
