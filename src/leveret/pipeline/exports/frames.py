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
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.warehouse.parts import DataFile
from leveret.pipeline.warehouse.place import is_folder
from leveret.pipeline.warehouse.tables import columns_of, names_of_runs, read_table
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
    if name in ACROSS:
        found = read_table(warehouse, name, runs=names, state=state)
        # Spark Connect does not take the types of a table without rows.
        return spark.createDataFrame(_plain(found), spark_schema(found.schema))
    return rows(spark, warehouse, name, columns_of(warehouse, state, name), state.holding(name, names), names)


def rows(
    spark: SparkSession,
    warehouse: Warehouse,
    table: str,
    columns: pa.Schema,
    files: Sequence[DataFile],
    runs: Collection[str],
) -> DataFrame:
    """Return the rows of these runs in these files of a stored table."""
    kinds = spark_schema(columns)
    if not files:
        return spark.createDataFrame([], kinds)
    if is_folder(warehouse.url):
        paths = [f"{warehouse.url}/{table}/{file.path}" for file in files]
        found = spark.read.option("__globPaths__", "false").schema(kinds).parquet(*paths)
        wanted = spark.createDataFrame([(run,) for run in runs], "run string")
        return found.join(F.broadcast(wanted), ["run"], "left_semi").select(found.columns)
    url, of_table = warehouse.url, list(files)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from leveret.pipeline.warehouse.parts import read_rows

        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _plain(read_rows(url, table, [of_table[number]], columns, runs=runs)).to_batches()

    supply(spark)
    return spark.range(0, len(files), 1, len(files)).mapInArrow(read, kinds)


def _plain(rows: pa.Table) -> pa.Table:
    """Return the rows with strings instead of dictionary codes, as Spark takes them."""
    return rows.cast(schema.plain(rows.schema))
