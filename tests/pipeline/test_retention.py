"""Retention: old runs vanish from all tables, stay away, and leave the disk at a vacuum."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from leveret.pipeline.incremental import ingest, update
from leveret.pipeline.warehouse.keeping import days_of, expire, set_keep
from leveret.pipeline.warehouse.state import Contents
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.traces import header, lives, write


def days_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


def trace(folder: Path, run: str, *, days: int, worker: str = "main") -> Path:
    return write(folder / f"{run}.{worker}.jsonl", [header(run, worker, started=days_ago(days)), *lives(3)])


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A warehouse with a run of today and one that is a hundred days old, ingested together."""
    traces = tmp_path / "traces"
    trace(traces, "old", days=100)
    trace(traces, "new", days=0)
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest(warehouse, [traces])
    update(warehouse)
    return warehouse


def runs_in(warehouse: Warehouse, table: str) -> set[str]:
    return set(read_table(warehouse, table)["run"].to_pylist())


def test_old_runs_vanish_from_all_tables(warehouse: Warehouse) -> None:
    assert expire(warehouse, 90) == ["old"]

    assert {name: runs_in(warehouse, name) for name in ("events", "runs", "copies", "queue_stats")} == {
        name: {"new"} for name in ("events", "runs", "copies", "queue_stats")
    }


def test_tables_across_runs_count_the_others(warehouse: Warehouse) -> None:
    before = read_table(warehouse, "coverage", columns=["exercised_in"])["exercised_in"].to_pylist()

    expire(warehouse, 90)

    after = read_table(warehouse, "coverage", columns=["exercised_in"])["exercised_in"].to_pylist()
    assert (max(before), max(after)) == (2, 1)


def test_nothing_is_committed_if_no_run_is_old(warehouse: Warehouse) -> None:
    before = warehouse.state()

    assert expire(warehouse, 101) == []

    assert warehouse.state() == before


def test_an_expired_trace_that_comes_again_is_reported_and_changes_nothing(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    expire(warehouse, 90)
    trace(tmp_path / "copies", "old", days=100)
    trace(tmp_path / "copies", "old", days=100, worker="gw1")

    done = ingest(warehouse, [tmp_path / "copies"])

    assert done.expired == {"old": days_ago(100)[:10]}
    assert update(warehouse) == []
    assert runs_in(warehouse, "events") == {"new"}
    assert ingest(warehouse, [tmp_path / "copies"]).unchanged == 2


def test_a_late_file_that_cannot_be_used_does_not_bring_its_run_back(warehouse: Warehouse, tmp_path: Path) -> None:
    expire(warehouse, 90)
    write(tmp_path / "old.gw2.jsonl", [header("old", "gw2", started=days_ago(100), v=99)])

    done = ingest(warehouse, [tmp_path / "old.gw2.jsonl"])

    assert (list(done.refused), list(done.expired)) == ([str(tmp_path / "old.gw2.jsonl")], ["old"])
    assert "old" not in warehouse.state().runs


def test_a_late_piece_of_a_run_that_is_still_there_counts(warehouse: Warehouse, tmp_path: Path) -> None:
    expire(warehouse, 90)

    done = ingest(warehouse, [trace(tmp_path / "late", "new", days=100, worker="gw1")])

    assert done.expired == {}
    assert set(read_table(warehouse, "events")["worker"].to_pylist()) == {"main", "gw1"}


def test_an_update_lets_runs_expire_once_the_warehouse_keeps_them_for_a_time(warehouse: Warehouse) -> None:
    set_keep(warehouse, 90)
    assert runs_in(warehouse, "runs") == {"new", "old"}

    update(warehouse)

    assert runs_in(warehouse, "runs") == {"new"}


def test_a_warehouse_can_keep_runs_for_ever_again(warehouse: Warehouse) -> None:
    set_keep(warehouse, 90)
    set_keep(warehouse, None)

    update(warehouse)

    assert runs_in(warehouse, "runs") == {"new", "old"}


def test_the_files_of_an_expired_run_go_at_a_vacuum(warehouse: Warehouse, tmp_path: Path) -> None:
    older = trace(tmp_path / "older", "older", days=200)
    ingest(warehouse, [older])
    update(warehouse)
    files = set(Path(warehouse.url).rglob("*.parquet"))

    expire(warehouse, 150)
    assert warehouse.vacuum() == (0, 0)
    warehouse.vacuum(older_than_s=0)

    gone = files.difference(Path(warehouse.url).rglob("*.parquet"))
    assert {path.parent.name for path in gone} >= {"events", "files", "runs", "copies"}
    assert runs_in(warehouse, "runs") == {"new", "old"}


def test_an_expiry_that_was_killed_is_done_by_the_next_one(warehouse: Warehouse) -> None:
    class Killed(BaseException):
        pass

    class Dying(Warehouse):
        def replace(self, state: Contents, table: str, *rest: Any) -> None:
            if table == "tests":
                raise Killed
            super().replace(state, table, *rest)

    with pytest.raises(Killed):
        expire(Dying(warehouse.url), 90)
    assert runs_in(warehouse, "tests") == runs_in(warehouse, "runs") == {"new"}

    expire(warehouse, 90)

    assert set(DeltaTable(f"{warehouse.url}/tests").to_pyarrow_table()["run"].to_pylist()) == {"new"}


def test_a_run_without_a_date_is_as_old_as_its_ingest(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest(warehouse, [write(tmp_path / "r.jsonl", [header("undated", started=None), *lives(1)])])

    assert expire(warehouse, 1) == []
    assert update(warehouse) == ["undated"]
    assert warehouse.state().runs["undated"].day in (days_ago(0)[:10], days_ago(1)[:10])


@pytest.mark.parametrize(("period", "days"), [("1d", 1), ("90d", 90), ("12w", 84)])
def test_a_period_is_a_number_of_days_or_weeks(period: str, days: int) -> None:
    assert days_of(period) == days


@pytest.mark.parametrize("period", ["", "90", "0d", "-1d", "3m", "d", "1.5d"])
def test_anything_else_is_not_a_period(period: str) -> None:
    with pytest.raises(ValueError, match="write a number of days or weeks, such as 90d or 12w"):
        days_of(period)
