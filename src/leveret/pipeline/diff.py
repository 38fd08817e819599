"""Differences in the message flow of two runs or commits: queues, dead letters, tests, coverage, violations.

A commit stands for all its runs, and its numbers are means over them. So you can compare three runs of one commit with
one of another. Times are left out, because they differ in any two runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.pipeline.schema import RUN_DIFF

# The tables that `diff` compares.
READS: Final = ("runs", "queue_stats", "run_lineage", "fingerprints", "run_coverage", "violations")

_OF_QUEUES: Final = (
    *("copies", "deliveries", "redeliveries", "acked", "leaked"),
    *("dead_rejected", "dead_expired", "dead_maxlen", "dead_delivery_limit", "dropped", "max_depth"),
)
_PLACES_KEPT: Final = 3


def diff(tables: Mapping[str, DataFrame], left: str, right: str) -> DataFrame:
    """Return one row for each number or behaviour that differs.

    `left` and `right` each name a run or a commit. In a row, `side` is the kind of thing, `queue` its name,
    `difference` what of it differs, and `position` the order for display. `tables` holds the tables that READS names.
    """
    sides = [
        _of_side(tables, name).withColumn("is_left", F.lit(is_left)) for name, is_left in ((left, True), (right, False))
    ]
    both = sides[0].unionByName(sides[1])
    is_left = F.col("is_left")
    compared = both.groupBy("side", "queue", "position", "difference").agg(
        F.max(F.when(is_left, F.col("value"))).alias("left"), F.max(F.when(~is_left, F.col("value"))).alias("right")
    )
    differing = compared.where(~F.col("left").eqNullSafe(F.col("right")))
    return differing.select(RUN_DIFF.fieldNames())


def _of_side(tables: Mapping[str, DataFrame], name: str) -> DataFrame:
    runs = tables["runs"].where((F.col("run") == name) | (F.col("commit") == name)).select("run").distinct()
    total = F.broadcast(runs.agg(F.count(F.lit(1)).alias("runs")))
    mine = {table: tables[table].join(F.broadcast(runs), "run", "left_semi") for table in READS}
    label = F.when(F.coalesce("vhost", F.lit("/")) == "/", F.col("queue")).otherwise(F.concat_ws("/", "vhost", "queue"))
    flow = F.concat_ws(" to ", F.col("reason"), F.col("to_queue"))
    counted = F.lit(1).cast("double")
    numbers = [
        _numbers(mine["queue_stats"], "queue", label, [(F.lit(of), F.col(of)) for of in _OF_QUEUES]),
        _numbers(mine["run_lineage"], "dead letters", F.col("from_queue"), [(flow, F.col("n"))]),
        _numbers(mine["run_coverage"], "coverage", F.col("name"), [(F.col("kind"), F.col("messages"))]),
        _numbers(mine["violations"], "violations", F.col("queue"), [(F.col("rule"), counted)]),
    ]
    summed = reduce(DataFrame.unionByName, numbers).groupBy("side", "queue", "position", "difference")
    means = summed.agg(F.sum("value").alias("value")).crossJoin(total)
    mean = F.round(F.col("value") / F.col("runs"), _PLACES_KEPT)
    is_whole = mean == F.floor(mean)
    text = F.when(is_whole, mean.cast("long").cast("string")).otherwise(mean.cast("string"))
    keys = ["side", "queue", "position", "difference"]
    return means.select(*keys, text.alias("value")).unionByName(_behaviours(mine["fingerprints"]))


def _numbers(rows: DataFrame, side: str, name: Column, measures: Sequence[tuple[Column, Column]]) -> DataFrame:
    measured = [
        F.struct(
            F.lit(place).cast("long").alias("position"), what.alias("difference"), value.cast("double").alias("value")
        )
        for place, (what, value) in enumerate(measures)
    ]
    named = rows.select(F.lit(side).alias("side"), name.alias("queue"), F.explode(F.array(*measured)).alias("measured"))
    return named.select("side", "queue", "measured.*").where(F.col("value") != 0)


def _behaviours(fingerprints: DataFrame) -> DataFrame:
    """Return the outcomes of each test and what happened in its queues, each behaviour once."""
    part = F.transform(
        "parts",
        lambda part: F.format_string(
            "%s: %d %s, %d requeues", part["queue"], part["n"], part["outcome"], part["requeues"]
        ),
    )
    sets = fingerprints.groupBy("test").agg(
        F.array_join(F.array_sort(F.collect_set("outcome")), ", ").alias("outcome"),
        F.array_join(F.array_sort(F.collect_set(F.array_join(part, "; "))), " | ").alias("flow"),
    )
    measured = [
        F.struct(
            F.lit(place).cast("long").alias("position"), F.lit(name).alias("difference"), F.col(name).alias("value")
        )
        for place, name in enumerate(("outcome", "flow"))
    ]
    named = sets.select(
        F.lit("test").alias("side"), F.col("test").alias("queue"), F.explode(F.array(*measured)).alias("measured")
    )
    return named.select("side", "queue", "measured.*")
