"""Tables of a warehouse as DataFrames, and trace files too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from leveret.pipeline.computing.tasks import SCHEMAS
from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.subjects.across import Across
from leveret.pipeline.sources import find
from leveret.pipeline.warehouse.log import Answer, State
from leveret.pipeline.warehouse.warehouse import Warehouse
from leveret.spark.bundle import supply

_EVENT_KEY: Final = ["run", "worker", "seq"]


def spark_schema(columns: pa.Schema) -> StructType:
    """Return the columns as Spark declares them."""
    return from_arrow_schema(schema.plain(columns))


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

    supply(spark)
    numbers = spark.range(0, len(paths), 1, len(paths))
    return numbers.mapInArrow(read, spark_schema(schema.EVENTS)).dropDuplicates(_EVENT_KEY)


def events(spark: SparkSession, warehouse: Warehouse, state: State, runs: Collection[str]) -> DataFrame:
    """Return the events of these runs, each once."""
    all_rows = _of_parts(spark, warehouse, "events", schema.EVENTS, state.live_parts(runs))
    repeated = [name for name in runs if state.runs[name].is_repeated]
    if not repeated:
        return all_rows
    is_repeated = F.col("run").isin(repeated)
    return all_rows.where(~is_repeated).unionByName(all_rows.where(is_repeated).dropDuplicates(_EVENT_KEY))


def rows(
    spark: SparkSession,
    warehouse: Warehouse,
    state: State,
    table: str,
    columns: StructType | pa.Schema,
    runs: Collection[str],
) -> DataFrame:
    """Return the current rows of a stored table for these runs: leveret's own, and those that a user's code added."""
    live: dict[str, list[str]] = {}
    for name in runs:
        answer = state.runs[name].answer
        if answer is not None:
            live.setdefault(answer, []).append(name)
    return of_answers(spark, warehouse, state.answers, table, columns, live)


def of_answers(
    spark: SparkSession,
    warehouse: Warehouse,
    answers: Mapping[str, Answer],
    table: str,
    columns: StructType | pa.Schema,
    live: Mapping[str, Collection[str]],
) -> DataFrame:
    """Return the rows of a stored table in these answers, only those of the runs that are `live` in each."""
    stored = {part: names for part, names in live.items() if answers[part].tables.get(table)}
    added: dict[str, list[str]] = {}
    for part, names in live.items():
        if table in answers[part].added:
            added.setdefault(answers[part].added[table], []).extend(names)
    frames = [_of_parts(spark, warehouse, table, columns, stored)] if stored or not added else []
    if added:
        frames.append(_of_folders(spark, warehouse, columns, added))
    return reduce(DataFrame.unionByName, frames)


def across(table: Across, rows: DataFrame) -> DataFrame:
    """Return a table across runs, from the rows of the table that it reads."""

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows_of_key = list(batches)
        if rows_of_key:
            yield from plain(table.build(pa.Table.from_batches(rows_of_key))).to_batches()

    supply(rows.sparkSession)
    return rows.repartition(*table.key).mapInArrow(build, spark_schema(table.columns))


def plain(rows: pa.Table) -> pa.Table:
    """Return the rows with strings instead of dictionary codes, as Spark takes them."""
    return rows.cast(schema.plain(rows.schema))


def _of_parts(
    spark: SparkSession,
    warehouse: Warehouse,
    table: str,
    columns: StructType | pa.Schema,
    live: Mapping[str, Collection[str]],
) -> DataFrame:
    """Return the rows of these runs in each of these parts."""
    kinds = columns if isinstance(columns, StructType) else spark_schema(columns)
    if not live:
        return spark.createDataFrame([], kinds)
    if warehouse.is_folder:
        files = [f"{warehouse.url}/{table}/{part}.parquet" for part in live]
        return _of_files(spark, kinds, files, -1, {f"{part}.parquet": names for part, names in live.items()})
    url, wanted, arrow = warehouse.url, list(live.items()), columns_of(table)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from leveret.pipeline.storage import open_storage
        from leveret.pipeline.warehouse.parts import read_part

        storage = open_storage(url)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part, names = wanted[number]
                yield from plain(read_part(storage, table, part, arrow, runs=names)).to_batches()

    supply(spark)
    return spark.range(0, len(wanted), 1, len(wanted)).mapInArrow(read, kinds)


def _of_folders(
    spark: SparkSession, warehouse: Warehouse, columns: StructType | pa.Schema, live: Mapping[str, Collection[str]]
) -> DataFrame:
    """Return the rows of these runs in each of these folders, which Spark has written."""
    kinds = columns if isinstance(columns, StructType) else spark_schema(columns)
    by_name = {place.rpartition("/")[2]: names for place, names in live.items()}
    return _of_files(spark, kinds, [f"{warehouse.url}/{place}" for place in live], -2, by_name)


def _of_files(
    spark: SparkSession, columns: StructType, files: list[str], position: int, live: Mapping[str, Collection[str]]
) -> DataFrame:
    """Return the rows of the live runs. `position` is where in a file's path the name stands that `live` knows."""
    stored = spark.read.option("__globPaths__", "false").schema(columns).parquet(*files)
    place = F.element_at(F.split(F.col("_metadata.file_path"), "/"), position)
    current = spark.createDataFrame(
        [(name, run) for name, runs in live.items() for run in runs], "_at string, run string"
    )
    placed = stored.withColumn("_at", place).join(F.broadcast(current), ["_at", "run"], "left_semi")
    return placed.select(columns.fieldNames())
