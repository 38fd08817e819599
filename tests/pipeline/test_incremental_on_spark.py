"""Updates of a warehouse by Spark: tables of one's own, and a stream over a folder of traces."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.pipeline import compact, incremental
from leveret.pipeline.exports.frames import read_frame
from leveret.pipeline.exports.sql import query
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.small_tables import SMALL_TABLES, kinds
from tests.pipeline.traces import header, lives, write
from tests.pipeline.updates import at_once, rows

WHOLE = lives(12)


class Killed(BaseException):
    """An exception that no code expects."""


def test_tables_of_ones_own_are_kept_up_to_date(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    for name in ("a", "b"):
        write(tmp_path / "traces" / f"{name}.jsonl", [header(name), *WHOLE])
        incremental.ingest(warehouse, [tmp_path / "traces"], spark=spark)
        incremental.update(warehouse, spark=spark, tables=SMALL_TABLES)

    compact(warehouse)

    events = read_table(warehouse, "events").to_pylist()
    expected = Counter((event["run"], event["kind"]) for event in events)
    found = read_frame(spark, warehouse, "kinds").collect()
    assert {(row.run, row.kind): row.n for row in found} == expected
    assert {(row["run"], row["kind"]): row["n"] for row in read_table(warehouse, "kinds").to_pylist()} == expected
    assert read_table(warehouse, "workers", runs=["a"]).to_pylist() == [{"run": "a", "n": 1}]
    assert query(warehouse, "select kind, sum(n) as n from kinds group by kind").num_rows == len(
        {event["kind"] for event in events}
    )


def test_a_table_of_ones_own_may_get_a_column(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")

    def doubled(events: DataFrame, runs: DataFrame) -> DataFrame:
        return kinds(events, runs).withColumn("twice", F.col("n") * 2)

    for name, build in (("a", kinds), ("b", doubled)):
        write(tmp_path / "traces" / f"{name}.jsonl", [header(name), *lives(1)])
        incremental.ingest(warehouse, [tmp_path / "traces"], spark=spark)
        table = dataclasses.replace(SMALL_TABLES["kinds"], build=build)
        incremental.update(warehouse, spark=spark, tables={"kinds": table})

    found = read_table(warehouse, "kinds").to_pylist()
    assert [row["twice"] for row in found] == [row["n"] * 2 if row["run"] == "b" else None for row in found]
    assert sorted(map(repr, found)) == sorted(
        repr(row.asDict()) for row in read_frame(spark, warehouse, "kinds").select(*found[0]).collect()
    )
    assert sorted(map(repr, found)) == sorted(map(repr, query(warehouse, "select * from kinds").to_pylist()))


def test_killed_between_two_tables_of_ones_own_it_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    def dies(*sources: DataFrame) -> DataFrame:
        raise Killed

    write(tmp_path / "traces" / "a.jsonl", [header("a"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    incremental.ingest(warehouse, [tmp_path / "traces"], spark=spark)
    deadly = dataclasses.replace(SMALL_TABLES["kinds"], build=dies)

    with pytest.raises(Killed):
        incremental.update(warehouse, spark=spark, tables={**SMALL_TABLES, "deadly": deadly})

    assert incremental.update(warehouse, spark=spark, tables=SMALL_TABLES) == ["a"]
    warehouse.vacuum(older_than_s=0)
    assert rows(warehouse) == at_once(tmp_path / "traces", tmp_path / "batch")
    assert read_frame(spark, warehouse, "kinds").count() > 0


def test_a_wrong_table_of_ones_own_is_named(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "traces" / "a.jsonl", [header("a"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    incremental.ingest(warehouse, [tmp_path / "traces"], spark=spark)

    def without_runs(events: DataFrame, runs: DataFrame) -> DataFrame:
        return kinds(events, runs).drop("run")

    orphan = dataclasses.replace(SMALL_TABLES["kinds"], reads=("events", "kids"))
    with pytest.raises(KeyError, match="table 'orphan' reads unknown table 'kids'; did you mean 'kinds'"):
        incremental.update(warehouse, spark=spark, tables={**SMALL_TABLES, "orphan": orphan})
    whole = dataclasses.replace(SMALL_TABLES["kinds"], build=without_runs)
    with pytest.raises(ValueError, match="table 'whole' has no column 'run', by which its rows are replaced: add it"):
        incremental.update(warehouse, spark=spark, tables={"whole": whole})
    with pytest.raises(ValueError, match="table 'copies' is one of leveret's own; choose another name"):
        incremental.update(warehouse, spark=spark, tables={"copies": whole})
    with pytest.raises(ValueError, match="table 'kinds' is your own and needs Spark"):
        incremental.update(warehouse, tables=SMALL_TABLES)
