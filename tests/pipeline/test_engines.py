"""Spark and processes on this machine fill a warehouse with the same rows, those of an independent computation.

For thousands of traces, run `python -m tests.pipeline.kernel_campaign`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from leveret.pipeline.computing.tasks import TABLE_NAMES
from leveret.pipeline.exports.frames import read_frame, spark_schema
from leveret.pipeline.incremental import ingest, update
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.warehouse.tables import STORED, read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline import plain, random_traces
from tests.pipeline.kernel_campaign import texts
from tests.pipeline.traces import header, write

SEED: Final = 20260101
COUNT: Final = 24
NAMES: Final = (*[name for name in TABLE_NAMES if name != "runs"], *ACROSS)


@dataclass
class Filled:
    """The same traces: the rows of plain Python, and the warehouses that each engine has filled."""

    spark: SparkSession
    expected: dict[str, list[dict[str, Any]]]
    by_spark: Warehouse
    by_processes: Warehouse


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("engines")
    traces = [made.trace for made in random_traces.several(COUNT, seed=SEED)] + random_traces.history(SEED)
    (folder / "traces").mkdir()
    for trace in traces:
        random_traces.write(folder / "traces" / f"{trace.run}.{trace.worker}.jsonl", trace)
    warehouses = [Warehouse(folder / "spark"), Warehouse(folder / "processes")]
    for warehouse, session in zip(warehouses, (spark, None), strict=True):
        ingest(warehouse, [folder / "traces"], spark=session, processes=2)
        update(warehouse, spark=session, processes=2)
    return Filled(spark, plain.tables(traces), *warehouses)


@pytest.mark.parametrize("name", NAMES)
def test_table_of_processes_equals_the_plain_computation(filled: Filled, name: str) -> None:
    found = read_table(filled.by_processes, name).to_pylist(maps_as_pydicts="strict")

    assert texts(found) == texts(filled.expected[name])


@pytest.mark.parametrize("name", NAMES)
def test_table_of_spark_equals_the_plain_computation(filled: Filled, name: str) -> None:
    found = read_table(filled.by_spark, name).to_pylist(maps_as_pydicts="strict")

    assert texts(found) == texts(filled.expected[name])


@pytest.mark.parametrize("name", ["events", "runs", "copies", "queue_stats", "fingerprints", *ACROSS])
def test_a_dataframe_has_the_rows_of_the_arrow_table(filled: Filled, name: str) -> None:
    frame = read_frame(filled.spark, filled.by_processes, name)
    table = read_table(filled.by_processes, name)

    assert texts(as_dicts(frame.collect())) == texts(table.to_pylist(maps_as_pydicts="strict"))
    if name not in ACROSS:
        assert frame.schema == spark_schema(STORED[name])


def test_a_dataframe_of_some_runs_has_only_theirs(filled: Filled) -> None:
    runs = read_table(filled.by_spark, "runs")["run"].to_pylist()[:3]

    found = read_frame(filled.spark, filled.by_spark, "copies", runs=runs)

    assert {row.run for row in found.select("run").collect()} == set(runs)


class ConnectSession:
    """What `read_frame` needs of a session of Spark Connect, which asks for the schema of a table without rows."""

    def createDataFrame(self, rows: pa.Table, schema: StructType | None = None) -> list[str]:
        assert len(rows) or schema is not None, (
            "[CANNOT_INFER_EMPTY_SCHEMA] Can not infer schema from an empty dataset."
        )
        return rows.column_names if schema is None else schema.fieldNames()


@pytest.mark.parametrize("name", ACROSS)
def test_a_table_across_runs_may_have_no_rows_on_spark_connect(name: str, tmp_path: Path) -> None:
    ingest(tmp_path / "warehouse", write(tmp_path / "started.jsonl", [header("started")]), processes=1)

    found = read_frame(cast(SparkSession, ConnectSession()), tmp_path / "warehouse", name)

    assert found == ACROSS[name].columns.names


def as_dicts(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in rows]
