"""A warehouse that is updated often keeps few files: updates merge small ones by themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from leveret.pipeline import ingest, update
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.traces import header, lives, write


def ingest_one(warehouse: Warehouse, folder: Path, name: str, messages: int = 2) -> None:
    ingest(warehouse, [write(folder / f"{name}.jsonl", [header(name), *lives(messages)])], processes=1)


def test_an_update_merges_small_files_once_there_are_many(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    names = [f"r{number}" for number in range(50)]
    for name in names:
        ingest_one(warehouse, tmp_path, name)
    assert len(warehouse.state().files_of("events")) == 50

    update(warehouse, processes=1)

    assert {len(warehouse.state().files_of(name)) for name in ("events", "files", "copies")} == {1}
    assert Counter(read_table(warehouse, "copies")["run"].to_pylist()) == dict.fromkeys(names, 2)


def test_a_run_that_is_computed_again_leaves_one_file_with_its_rows(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    for name in ("a", "b"):
        ingest_one(warehouse, tmp_path, name)
    update(warehouse, processes=1)
    ingest_one(warehouse, tmp_path / "more", "a", messages=4)

    update(warehouse, processes=1)

    copies = warehouse.state().files_of("copies")
    assert sorted((file.low, file.high, file.rows) for file in copies) == [("a", "a", 4), ("b", "b", 2)]
    assert Counter(read_table(warehouse, "copies")["run"].to_pylist()) == {"a": 4, "b": 2}
