"""SQL over a warehouse, by DuckDB: live rows only, and no way out of the tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leveret.errors import NoWarehouseError
from leveret.pipeline import compact, ingest, update
from leveret.pipeline.computing.tasks import TABLE_NAMES
from leveret.pipeline.exports.sql import query
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.traces import header, lives, write

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "warehouse.md").read_text(encoding="utf-8")
TABLES = ("events", *TABLE_NAMES, *ACROSS)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse of two runs, of which one came in two pieces that share events, and was computed twice."""
    folder = tmp_path_factory.mktemp("sql")
    events = lives(9)
    first = write(folder / "r1.jsonl", [header("r1", started="2026-05-01T10:00:00Z"), *events[:20]])
    other = write(folder / "r2.jsonl", [header("r2", started="2026-05-02T10:00:00Z"), *lives(4)])
    again = write(folder / "r1-again.jsonl", [header("r1", started="2026-05-01T10:00:00Z"), *events[10:]])
    warehouse = Warehouse(folder / "warehouse")
    for places in ([first, other], [again]):
        ingest(warehouse, places)
        update(warehouse)
    return warehouse


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_the_rows_that_read_table_returns(warehouse: Warehouse, table: str) -> None:
    found = query(warehouse, f"select * from {table}")

    expected = read_table(warehouse, table)
    assert found.column_names == expected.column_names
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def test_rows_of_a_run_that_was_computed_again_are_left_out(warehouse: Warehouse) -> None:
    assert query(warehouse, "select count(*) as n from copies").to_pylist() == [{"n": 13}]


def test_a_query_may_join_and_name_a_table_twice(warehouse: Warehouse) -> None:
    text = """
        select run, count(*) as n from runs join copies using (run)
        where run in (select run from copies) group by all order by all
    """

    assert query(warehouse, text).to_pylist() == [{"run": "r1", "n": 9}, {"run": "r2", "n": 4}]


def test_the_tables_and_their_columns_are_listed_without_reading_them(warehouse: Warehouse) -> None:
    assert set(query(warehouse, "show tables")["name"].to_pylist()) == set(TABLES)
    assert "leaked" in query(warehouse, "describe queue_stats")["column_name"].to_pylist()


@pytest.mark.parametrize("text", re.findall(r'(?:pipeline sql|query\(Warehouse\("warehouse"\),) "([^"]+)"', PAGE))
def test_the_queries_of_the_page_run(warehouse: Warehouse, text: str) -> None:
    assert query(warehouse, text).column_names


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("selec 1", 'syntax error at or near "selec"$'),
        ("select * from copeis", 'copeis does not exist! Did you mean "copies"\\?$'),
        ("select runn from runs", '"runn" not found in FROM clause! Candidate bindings: "run"'),
        ("select 1; select 2", "expected one query, .* but got SELECT and SELECT"),
        ("", "expected one query, .* but got nothing"),
        ("drop view runs", "expected one query, .* but got DROP"),
        ("copy runs to 'x.csv'", "expected one query, .* but got COPY"),
        ("select * from read_csv('/etc/hosts')", "file system operations are disabled"),
        ("select * from '/etc/hosts'", "does not exist"),
        ("select * from warehouse", "does not exist"),
    ],
)
def test_what_is_no_query_of_the_tables_is_refused_in_one_line(warehouse: Warehouse, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        query(warehouse, text)
    assert "\n" not in str(raised.value)


def test_a_place_that_is_no_warehouse_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoWarehouseError, match="is not a warehouse"):
        query(Warehouse(tmp_path / "absent"), "select 1")


def test_a_query_sees_the_same_rows_after_a_compaction(warehouse: Warehouse) -> None:
    before = query(warehouse, "select * from messages order by all").to_pylist()

    assert compact(warehouse) > 0

    assert query(warehouse, "select * from messages order by all").to_pylist() == before
