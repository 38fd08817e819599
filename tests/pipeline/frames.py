"""Traces as tables of Spark, tables as plain rows, and both sides of a comparison."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from leveret.pipeline import gold, schema
from leveret.pipeline.incremental import build_tables
from tests.pipeline.plain import Trace

_TYPES = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "boolean": pa.bool_(), "date": pa.date32()}
# Columns that only Spark computes: numbers for names.
_OWN = ("holder", "last_holder")


def sources(spark: SparkSession, traces: Iterable[Trace], folder: Path) -> dict[str, DataFrame]:
    """Return `events` and `runs` of these traces, stored in the folder."""
    traces = list(traces)
    events = [{**event, **trace.file} for trace in traces for event in trace.events]
    runs = [
        {**trace.file, "commit": trace.commit, "truncated": trace.truncated, "files": 1, "events": len(trace.events)}
        for trace in traces
    ]
    found = {}
    for name, rows, columns in (("events", events, schema.EVENTS), ("runs", runs, schema.RUNS)):
        types = pa.schema([(field.name, _TYPES[field.dataType.simpleString()]) for field in columns])
        pq.write_table(pa.Table.from_pylist(rows, types), folder / f"{name}.parquet", store_schema=False)
        found[name] = spark.read.schema(columns).parquet(str(folder / f"{name}.parquet"))
    return found


def build(
    spark: SparkSession, found: dict[str, DataFrame], folder: Path, names: Iterable[str] = gold.TABLES
) -> dict[str, DataFrame]:
    """Return these tables and the ones they are built from, each stored in the folder as a warehouse would."""
    tables = dict(found)
    needed = set(names)
    for name, table in reversed(gold.TABLES.items()):
        if name in needed:
            needed.update(table.reads)

    def write(name: str, rows: DataFrame) -> DataFrame:
        rows.write.mode("overwrite").parquet(str(folder / name))
        return spark.read.schema(rows.schema).parquet(str(folder / name))

    list(build_tables(spark, {name: table for name, table in gold.TABLES.items() if name in needed}, tables, write))
    return tables


def rows_of(table: DataFrame) -> list[str]:
    """Return the rows, sorted, as text; equal text means equal rows."""
    return sorted(_text(row.asDict(recursive=True)) for row in table.collect())


def plain_rows(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return plain rows in the same form."""
    return sorted(_text(row) for row in rows)


def _text(row: dict[str, Any]) -> str:
    return repr({name: _ordered(value) for name, value in sorted(row.items()) if name not in _OWN})


def _ordered(value: Any) -> Any:
    if isinstance(value, Row):
        value = value.asDict(recursive=True)
    return sorted(value.items()) if isinstance(value, dict) else value
