"""Tables of a warehouse as DataFrames."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.events import EVENT_KEY
from leveret.pipeline.kernel.subjects.across import ACROSS, Across
from leveret.pipeline.warehouse.log import Contents
from leveret.pipeline.warehouse.parts import CurrentFile, current_files
from leveret.pipeline.warehouse.tables import STORED, columns_of, names_of_runs
from leveret.pipeline.warehouse.warehouse import Warehouse, opened
from leveret.spark.bundle import supply


def spark_schema(columns: pa.Schema) -> StructType:
    """Return the columns as Spark declares them."""
    return from_arrow_schema(schema.plain(columns))


def read_frame(
    spark: SparkSession, warehouse: Warehouse | str | Path, name: str, *, runs: Collection[str] | None = None
) -> DataFrame:
    """Return the current rows of a table, for these runs or for all. Raises as `read_table` does."""
    warehouse = opened(warehouse)
    state = warehouse.existing()
    names = names_of_runs(state, name, runs)
    if name not in ACROSS:
        return rows(spark, warehouse, state, name, names)
    return _across(ACROSS[name], rows(spark, warehouse, state, ACROSS[name].reads, names))


def rows(spark: SparkSession, warehouse: Warehouse, state: Contents, table: str, runs: Collection[str]) -> DataFrame:
    """Return the current rows of a stored table for these runs: leveret's own, and those that a user's code added.

    Each event comes once.
    """
    files = current_files(warehouse.storage, state, table, runs)
    found = _of_files(spark, warehouse, table, files)
    repeated = state.repeated(runs) if table == "events" else []
    if not repeated:
        return found
    is_repeated = F.col("run").isin(repeated)
    return found.where(~is_repeated).unionByName(found.where(is_repeated).dropDuplicates(list(EVENT_KEY)))


def _across(table: Across, rows: DataFrame) -> DataFrame:
    """Return a table across runs, from the rows of the table that it reads."""

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows_of_key = list(batches)
        if rows_of_key:
            yield from _plain(table.build(pa.Table.from_batches(rows_of_key))).to_batches()

    supply(rows.sparkSession)
    return rows.repartition(*table.key).mapInArrow(build, spark_schema(table.columns))


def _plain(rows: pa.Table) -> pa.Table:
    """Return the rows with strings instead of dictionary codes, as Spark takes them."""
    return rows.cast(schema.plain(rows.schema))


def _of_files(spark: SparkSession, warehouse: Warehouse, table: str, files: Sequence[CurrentFile]) -> DataFrame:
    """Return the current rows of these files."""
    columns = columns_of(warehouse, table, files)
    kinds = spark_schema(columns)
    if not files:
        return spark.createDataFrame([], kinds)
    if warehouse.is_folder:
        paths = [f"{warehouse.url}/{file.path}" for file in files]
        reader = spark.read.option("__globPaths__", "false").option("mergeSchema", "true")
        # Of a table of a user's own, Spark finds the types in its files, as it wrote them.
        stored = (reader.schema(kinds) if table in STORED else reader).parquet(*paths)
        live = [(path.rpartition("/")[2], run) for path, runs, _ in files for run in runs]
        current = spark.createDataFrame(live, "_file string, run string")
        named = stored.withColumn("_file", F.element_at(F.split(F.col("_metadata.file_path"), "/"), -1))
        return named.join(F.broadcast(current), ["_file", "run"], "left_semi").select(stored.columns)
    url = warehouse.url

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from leveret.pipeline.storage import open_storage
        from leveret.pipeline.warehouse.parts import read_part

        storage = open_storage(url)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                path, runs, _ = files[number]
                yield from _plain(read_part(storage, path, columns, runs=runs)).to_batches()

    supply(spark)
    return spark.range(0, len(files), 1, len(files)).mapInArrow(read, kinds)
