"""Tables of a warehouse as DataFrames, and trace files too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.across import Across
from leveret.pipeline.log import State
from leveret.pipeline.sources import find
from leveret.pipeline.tasks import SCHEMAS
from leveret.pipeline.warehouse import Warehouse

_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.string(): StringType(),
    pa.bool_(): BooleanType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
}
_EVENT_KEY: Final = ["run", "worker", "seq"]


def spark_schema(columns: pa.Schema) -> StructType:
    """Return the columns as Spark declares them."""
    return StructType([StructField(field.name, _spark_type(field.type)) for field in columns])


def _spark_type(kind: pa.DataType) -> DataType:
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_map(kind):
        return MapType(_spark_type(kind.key_type), _spark_type(kind.item_type))
    if pa.types.is_list(kind):
        return ArrayType(_spark_type(kind.value_type), containsNull=False)
    if pa.types.is_struct(kind):
        return StructType([StructField(field.name, _spark_type(field.type)) for field in kind])
    return _TYPES[kind]


def columns_of(table: str) -> pa.Schema:
    """Return the columns of a stored table of leveret's."""
    return schema.EVENTS if table == "events" else SCHEMAS[table]


def read_events(spark: SparkSession, places: Iterable[str | Path]) -> DataFrame:
    """Return the events of these files and folders, each once. Files that cannot be used are left out.

    Raises NoTracesError if a place does not exist or a folder has no trace.
    """
    paths = [str(path) for path in find(places)]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from leveret.pipeline.kernel.trace import TraceReader

        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in TraceReader(Path(paths[number])).tables():
                    yield from plain(rows).to_batches()

    numbers = spark.range(0, len(paths), 1, len(paths))
    return numbers.mapInArrow(read, spark_schema(schema.EVENTS)).dropDuplicates(_EVENT_KEY)


def frame_of_parts(
    spark: SparkSession, warehouse: Warehouse, state: State, table: str, parts: Collection[str], runs: Collection[str]
) -> DataFrame:
    """Return the rows of a table in parts that no commit names yet, which hold only these runs."""
    if table == "events":
        return events(spark, warehouse, state, runs)
    rows = {stored.path for stored in warehouse.storage.list(table)}
    places = [place for place in warehouse.places(table, parts) if place in rows]
    return _scan(spark, warehouse, columns_of(table), places)


def events(spark: SparkSession, warehouse: Warehouse, state: State, runs: Collection[str]) -> DataFrame:
    """Return the events of these runs, each once."""
    segments = [segment for name in runs for segment in state.runs[name].segments if segment.count]
    places = warehouse.places("events", dict.fromkeys(segment.part for segment in segments))
    found = _of_runs(spark, _scan(spark, warehouse, schema.EVENTS, places), runs)
    repeated = [name for name in runs if state.runs[name].is_repeated]
    if not repeated:
        return found
    is_repeated = F.col("run").isin(repeated)
    return found.where(~is_repeated).unionByName(found.where(is_repeated).dropDuplicates(_EVENT_KEY))


def rows(
    spark: SparkSession,
    warehouse: Warehouse,
    state: State,
    table: str,
    columns: StructType | pa.Schema,
    runs: Collection[str],
) -> DataFrame:
    """Return the current rows of a stored table for these runs: leveret's own, and those that user's code added."""
    live: dict[str, list[str]] = {}
    for name in runs:
        answer = state.runs[name].answer
        if answer is not None:
            live.setdefault(answer, []).append(name)
    by_place: dict[str, list[str]] = {}
    for part, names in live.items():
        answer_of = state.answers[part]
        if answer_of.tables.get(table):
            by_place[f"{table}/{part}.parquet"] = names
        if table in answer_of.added:
            by_place.setdefault(answer_of.added[table], []).extend(names)
    frames = [
        _live(spark, _scan(spark, warehouse, columns, places), places)
        for places in (
            {place: names for place, names in by_place.items() if place.endswith(".parquet")},
            {place: names for place, names in by_place.items() if not place.endswith(".parquet")},
        )
        if places
    ]
    return reduce(DataFrame.unionByName, frames) if frames else _scan(spark, warehouse, columns, [])


def across(table: Across, rows: DataFrame) -> DataFrame:
    """Return a table across runs, from the rows of the table that it reads."""

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            yield from plain(table.build(pa.Table.from_batches(found))).to_batches()

    return rows.repartition(*table.key).mapInArrow(build, spark_schema(table.columns))


def plain(rows: pa.Table) -> pa.Table:
    """Return the rows with strings instead of dictionary codes, as Spark takes them."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column for column in rows.columns
    ]
    return pa.Table.from_arrays(columns, rows.column_names)


def _live(spark: SparkSession, found: DataFrame, places: Mapping[str, Collection[str]]) -> DataFrame:
    """Keep the rows of the runs that are current in each file."""
    pairs = [(place.split("/", 1)[1], name) for place, names in places.items() for name in names]
    current = spark.createDataFrame(pairs, "_place string, run string")
    return found.join(F.broadcast(current), ["_place", "run"], "left_semi").drop("_place")


def _of_runs(spark: SparkSession, found: DataFrame, runs: Collection[str]) -> DataFrame:
    wanted = spark.createDataFrame([(name,) for name in runs], "run string")
    return found.drop("_place").join(F.broadcast(wanted), ["run"], "left_semi").select(found.drop("_place").columns)


def _scan(
    spark: SparkSession, warehouse: Warehouse, columns: StructType | pa.Schema, places: Iterable[str]
) -> DataFrame:
    """Return all rows of these files, with the file's place within its table in `_place`."""
    ...
