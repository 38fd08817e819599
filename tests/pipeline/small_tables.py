"""Two cheap tables, for tests of the code that keeps tables up to date; those tests could use any table."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from leveret.pipeline.computing.own import Table

_KINDS: Final = StructType(
    [
        StructField("run", StringType()),
        StructField("worker", StringType()),
        StructField("kind", StringType()),
        StructField("n", LongType()),
        StructField("last_seq", LongType()),
    ]
)
_WORKERS: Final = StructType([StructField("run", StringType()), StructField("n", LongType())])


def kinds(events: DataFrame, runs: DataFrame) -> DataFrame:
    told = runs.select("run", "worker").where(F.col("events") > 0)
    counted = events.groupBy("run", "worker", "kind").agg(F.count("*").alias("n"), F.max("seq").alias("last_seq"))
    return told.join(counted, ["run", "worker"])


def workers(kinds: DataFrame) -> DataFrame:
    return kinds.groupBy("run").agg(F.countDistinct("worker").alias("n"))


SMALL_TABLES: Final = {
    "kinds": Table(_KINDS, ("events", "runs"), kinds),
    "workers": Table(_WORKERS, ("kinds",), workers),
}
