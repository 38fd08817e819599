"""Delta tables from a warehouse: other tools see its current rows, and nothing else."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from deltalake import DeltaTable

from leveret.cli import main
from leveret.pipeline import Warehouse, compact, expire, export, ingest, read_table, update
from leveret.pipeline.exports.delta import TABLES
from tests.pipeline.traces import header, lives, write


def add(warehouse: Warehouse, folder: Path, run: str, *, messages: int, started: str = "2026-05-01T10:00:00Z") -> None:
    ingest(warehouse, [write(folder / f"{run}-{messages}.jsonl", [header(run, started=started), *lives(messages)])])
    update(warehouse)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(tmp_path / "warehouse")
    add(warehouse, tmp_path, "r1", messages=3)
    add(warehouse, tmp_path, "it's r2", messages=4)
    return warehouse


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found: str = str(tmp_path / "delta") if request.param == "folder" else request.getfixturevalue("s3")
    return found


def rows(place: str, table: str) -> list[str]:
    uri, options = f"{place}/{table}", {}
    if place.startswith("s3:"):
        uri, options = quote(uri, safe="/:"), {"AWS_ALLOW_HTTP": "true"}
    return sorted(map(repr, DeltaTable(uri, storage_options=options).to_pyarrow_table().to_pylist()))


def expected(warehouse: Warehouse, table: str) -> list[str]:
    return sorted(map(repr, read_table(warehouse, table).to_pylist()))


def test_every_table_is_exported(warehouse: Warehouse, tmp_path: Path) -> None:
    changed = export(warehouse, tmp_path / "delta")

    assert changed == dict.fromkeys(TABLES, 2)
    for table in TABLES:
        assert rows(str(tmp_path / "delta"), table) == expected(warehouse, table)


def test_an_export_replaces_the_runs_that_have_changed(warehouse: Warehouse, tmp_path: Path, place: str) -> None:
    tables = ("events", "copies", "coverage")
    export(warehouse, place, tables=tables)
    assert rows(place, "copies") == expected(warehouse, "copies")
    add(warehouse, tmp_path, "it's r2", messages=6)
    add(warehouse, tmp_path, "r3", messages=2)

    changed = export(warehouse, place, tables=tables)

    assert changed == dict.fromkeys(tables, 2)
    for table in tables:
        assert rows(place, table) == expected(warehouse, table)


def test_an_export_removes_runs_that_have_expired(warehouse: Warehouse, tmp_path: Path) -> None:
    add(warehouse, tmp_path, "new", messages=2, started="2999-01-01T00:00:00Z")
    export(warehouse, tmp_path / "delta")
    expire(warehouse, 1)

    export(warehouse, tmp_path / "delta")

    for table in TABLES:
        assert rows(str(tmp_path / "delta"), table) == expected(warehouse, table)
    assert len(rows(str(tmp_path / "delta"), "runs")) == 1


def test_nothing_is_exported_if_nothing_has_changed(warehouse: Warehouse, tmp_path: Path) -> None:
    export(warehouse, tmp_path / "delta", tables=["copies", "flaky"])
    compact(warehouse)

    assert export(warehouse, tmp_path / "delta", tables=["copies", "flaky"]) == {"copies": 0, "flaky": 0}
    assert DeltaTable(tmp_path / "delta" / "copies").version() == 0


def test_an_export_that_was_killed_before_its_end_is_repeated(warehouse: Warehouse, tmp_path: Path) -> None:
    export(warehouse, tmp_path / "delta", tables=["copies"])
    (tmp_path / "delta" / "_exported" / "copies.json.gz").unlink()

    assert export(warehouse, tmp_path / "delta", tables=["copies"]) == {"copies": 2}

    assert rows(str(tmp_path / "delta"), "copies") == expected(warehouse, "copies")


def test_the_command_exports_the_tables_it_names(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["pipeline", "export", str(tmp_path / "delta"), "-w", warehouse.url, "--table", "runs", "--table"]

    assert main([*arguments, "tests"]) == 0
    assert main([*arguments, "tests"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        *("runs: 2 runs changed", "tests: 2 runs changed", "runs: up to date", "tests: up to date")
    ]
    assert main([*arguments, "tessts"]) == 2
    assert "unknown table 'tessts'" in capsys.readouterr().err
