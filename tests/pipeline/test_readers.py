"""Other engines read a warehouse's Delta tables with the rows of `read_table`, whatever was done to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from deltalake import DeltaTable

from leveret.pipeline import Warehouse, compact, expire, ingest, read_table, update
from leveret.pipeline.exports.sql import query
from leveret.pipeline.warehouse.tables import STORED
from tests.pipeline.traces import header, lives, text, write

BEGAN: Final = "2026-05-01T10:00:00Z"


def add(warehouse: Warehouse, folder: Path, run: str, messages: int, started: str = BEGAN) -> None:
    ingest(warehouse, [write(folder / f"{run}-{messages}.jsonl", [header(run, started=started), *lives(messages)])])
    update(warehouse)


def computed_again(warehouse: Warehouse, folder: Path) -> None:
    update(warehouse, everything=True)


def grown(warehouse: Warehouse, folder: Path) -> None:
    add(warehouse, folder, "it's r2", 6)


def cut_and_mended(warehouse: Warehouse, folder: Path) -> None:
    path = folder / "cut.jsonl"
    path.write_text(text([header("cut"), *lives(4)])[:-9])
    ingest(warehouse, [path])
    update(warehouse)
    write(path, [header("cut"), *lives(4)])
    ingest(warehouse, [path])
    update(warehouse)


def expired(warehouse: Warehouse, folder: Path) -> None:
    add(warehouse, folder, "new", 2, started="2999-01-01T00:00:00Z")
    expire(warehouse, 1)


def merged_and_vacuumed(warehouse: Warehouse, folder: Path) -> None:
    grown(warehouse, folder)
    compact(warehouse)
    warehouse.vacuum(older_than_s=0)


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(
        repr(sorted((name, value) for name, value in row.items() if not name.startswith("_"))) for row in rows
    )


@pytest.mark.parametrize("act", [computed_again, grown, cut_and_mended, expired, merged_and_vacuumed])
def test_every_reader_finds_the_same_rows(tmp_path: Path, act: Callable[[Warehouse, Path], None]) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    for run, messages in (("r1", 3), ("it's r2", 4)):
        add(warehouse, tmp_path, run, messages)

    act(warehouse, tmp_path)

    for name in STORED:
        if not (tmp_path / "warehouse" / name).is_dir():
            assert read_table(warehouse, name).num_rows == 0
            continue
        table = DeltaTable(tmp_path / "warehouse" / name)
        expected = texts(read_table(warehouse, name).to_pylist(maps_as_pydicts="strict"))
        assert texts(table.to_pyarrow_table().to_pylist(maps_as_pydicts="strict")) == expected
        # pandas has no nulls among whole numbers.
        assert sorted(table.to_pandas()["run"]) == sorted(read_table(warehouse, name)["run"].to_pylist())
        with duckdb.connect() as connection:
            files = table.file_uris()
            counted = connection.execute("select run, count(*) from read_parquet(?) group by all", [files]).fetchall()
        assert sum(n for _, n in counted) == len(expected)
        assert query(warehouse, f"select count(*) as n from {name}").to_pylist() == [{"n": len(expected)}]


def test_tables_are_read_as_they_were_at_an_instant(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    add(warehouse, tmp_path, "r1", 3)
    instant = datetime.now(UTC)
    before = texts(read_table(warehouse, "copies").to_pylist())
    add(warehouse, tmp_path, "r1", 7)
    add(warehouse, tmp_path, "r2", 2)

    past = Warehouse(tmp_path / "warehouse", as_of=instant)

    assert texts(read_table(past, "copies").to_pylist()) == before
    assert list(past.state().runs) == ["r1"]
    assert read_table(warehouse, "copies").num_rows == 9
