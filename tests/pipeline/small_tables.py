"""Two cheap tables, for tests of the code that keeps tables up to date; those tests could use any table."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from leveret.pipeline.computing.own import Table


def kinds(events: DataFrame, runs: DataFrame) -> DataFrame:
    told = runs.select("run", "worker").where(F.col("events") > 0)
    counted = events.groupBy("run", "worker", "kind").agg(F.count("*").alias("n"), F.max("seq").alias("last_seq"))
    return told.join(counted, ["run", "worker"])


def workers(kinds: DataFrame) -> DataFrame:
    return kinds.groupBy("run").agg(F.countDistinct("worker").alias("n"))


SMALL_TABLES: Final = {
    "kinds": Table(("events", "runs"), kinds),
    "workers": Table(("kinds",), workers),
}
