"""Gold: the tables on queues, consumers, routes, tests and faults, made from the lives of copies and messages.

`TABLES` lists all tables in the order in which they can be built. The warehouse, incremental updates and the commands
know the tables only through it. A table across runs is built from counts in tables per run, so the rows do not depend
on how the runs were divided into updates.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.pipeline import coverage, holds, lifecycle, rules, schema
from leveret.pipeline.kernel.codes import DEATH_REASONS, GROWTH
from leveret.pipeline.lifecycle import FILE_KEY, QUEUE_KEY, null_safe_join, outcome_of, place_of
from leveret.pipeline.schema import Table

_SUMMED: Final = (
    *("copies", "deliveries", "redeliveries", "acked", "leaked"),
    *("dead_rejected", "dead_expired", "dead_maxlen", "dead_delivery_limit", "dropped"),
)


def bucket_of(span_us: Column) -> Column:
    """Return the bucket of a logarithmic histogram for a span in microseconds; null for a negative span."""
    logarithm = F.floor(F.log(span_us.cast("double")) / F.log(F.lit(GROWTH))).cast("int") + 1
    return F.when(span_us >= 1, logarithm).when(span_us == 0, 0)


def bucket_bounds(bucket: int) -> tuple[float, float]:
    """Return the lower and the upper bound of a bucket, in microseconds."""
    return (0.0, 1.0) if bucket <= 0 else (GROWTH ** (bucket - 1), GROWTH**bucket)


def latency_hist(copies: DataFrame) -> DataFrame:
    """Return histograms of how long copies waited and how long they were processed.

    "wait" is the time in the queue before the first delivery, "process" the time from there to the copy's end.
    """
    wait = F.col("first_delivered_at") - F.col("enqueued_at")
    process = F.col("settled_at") - F.col("first_delivered_at")
    measured = copies.select(
        *("day", "run", "vhost", "queue"),
        F.explode(
            F.array(
                F.struct(F.lit("wait").alias("measure"), bucket_of(wait).alias("bucket")),
                F.struct(F.lit("process").alias("measure"), bucket_of(process).alias("bucket")),
            )
        ).alias("measured"),
    ).select("day", "run", "vhost", "queue", "measured.*")
    key = ["day", "run", "vhost", "queue", "measure", "bucket"]
    return measured.where(F.col("bucket").isNotNull()).groupBy(*key).agg(F.count(F.lit(1)).alias("n"))


def test_queues(copies: DataFrame) -> DataFrame:
    """Return counts for each queue of each test on each worker."""
    deaths = [
        F.count(F.when(F.col("dl_reason") == number, 1)).alias(f"dead_{reason}")
        for reason, number in DEATH_REASONS.items()
    ]
    counts = (
        copies.groupBy(*QUEUE_KEY)
        .agg(
            F.count(F.lit(1)).alias("copies"),
            F.sum("deliveries").alias("deliveries"),
            F.sum(F.greatest(F.col("deliveries") - 1, F.lit(0))).alias("redeliveries"),
            F.count(F.when(F.col("acks") > 0, 1)).alias("acked"),
            F.count(F.when(F.col("end_seq").isNull(), 1)).alias("leaked"),
            *deaths,
            F.count(F.when(F.col("drops") > 0, 1)).alias("dropped"),
        )
        .withColumn("place", place_of())
    )
    ordered = rules.in_queue_order(copies)
    ups = F.count(F.when(F.col("delta") == 1, 1)) - F.count(F.when(F.col("delta") == -1, 1))
    walked = ordered.groupBy("place").agg(
        (ups - F.min(F.when(F.col("delta") == 1, F.coalesce("delta_after", F.lit(0))))).alias("max_depth"),
        F.count(F.when(rules.is_late(), 1)).alias("late"),
        F.count(F.when(rules.is_passed(), 1)).alias("passed"),
        F.count(F.when(rules.is_unordered(), 1)).alias("unordered"),
    )
    joined = counts.join(walked, "place", "left")
    zero = [F.coalesce(name, F.lit(0)).alias(name) for name in ("max_depth", "late", "passed", "unordered")]
    return joined.select(*QUEUE_KEY, *_SUMMED, *zero).select(schema.TEST_QUEUES.fieldNames())


def queue_stats(test_queues: DataFrame, latency_hist: DataFrame) -> DataFrame:
    """Return counts for each queue of a run, summed over its tests and workers; of depths, the greatest."""
    key = ["day", "run", "vhost", "queue"]
    counts = test_queues.groupBy(*key).agg(
        *[F.sum(name).alias(name) for name in _SUMMED], F.max("max_depth").alias("max_depth")
    )

    def histogram(measure: str) -> Column:
        entries = F.collect_list(F.when(F.col("measure") == measure, F.struct("bucket", "n")))
        return F.map_from_entries(F.array_sort(entries)).alias(f"{measure}_hist")

    histograms = latency_hist.groupBy(*key).agg(histogram("wait"), histogram("process"))
    joined = null_safe_join(counts, histograms, key)
    empty = F.create_map().cast("map<int,bigint>")
    filled = [F.coalesce(name, empty).alias(name) for name in ("wait_hist", "process_hist")]
    return joined.select(*key, *_SUMMED, "max_depth", *filled).select(schema.QUEUE_STATS.fieldNames())


def consumer_stats(consumers: DataFrame) -> DataFrame:
    """Return counts for each consumer tag of a queue in a run. What basic.get took belongs to no consumer."""
    key = ["day", "run", "vhost", "queue", "consumer"]
    counted = ("deliveries", "redeliveries", "acked", "nacked", "rejected")
    rows = consumers.where(F.col("consumer").isNotNull()).groupBy(*key)
    return rows.agg(*[F.sum(name).alias(name) for name in counted], F.max("max_unacked").alias("max_unacked"))


def run_lineage(copies: DataFrame) -> DataFrame:
    """Return the source and target queues of each test's dead letters, counting each `enqueued` of a dead letter."""
    sources = copies.where(F.col("dead_letters") > 0).select(
        *("run", "worker"),
        F.col("copy").alias("src_copy"),
        F.col("queue").alias("from_queue"),
        _named(F.col("dl_reason"), DEATH_REASONS).alias("reason"),
    )
    letters = copies.where(F.col("src_copy").isNotNull() & (F.col("enqueues") > 0)).select(
        *(*FILE_KEY, "test", "src_copy", "enqueues"), F.col("queue").alias("to_queue")
    )
    joined = letters.join(sources, ["run", "worker", "src_copy"], "left")
    key = ["day", "run", "test", "from_queue", "reason", "to_queue"]
    return joined.groupBy(*key).agg(F.sum("enqueues").alias("n"))


def lineage(run_lineage: DataFrame) -> DataFrame:
    """Return the source and target queues of dead letters over all runs."""
    return run_lineage.groupBy("from_queue", "reason", "to_queue").agg(
        F.sum("n").alias("n"), F.countDistinct("run").alias("runs"), F.countDistinct("test").alias("tests")
    )


def fingerprints(copies: DataFrame, tests: DataFrame, runs: DataFrame) -> DataFrame:
    """Return a fingerprint of what each test did in its queues.

    Two fingerprints `fp` are equal if the queues had equal numbers of copies with equal outcomes and equal numbers of
    requeues. `order_fp` also covers the order in which the first copies came.
    """
    key = ["day", "run", "test"]
    names = ("queue", "outcome", "n", "requeues")
    counted = (
        copies.where(F.col("test").isNotNull())
        .groupBy(*key, "queue", outcome_of().alias("outcome"))
        .agg(
            F.count(F.lit(1)).alias("n"),
            F.sum("requeues").alias("requeues"),
            F.min("enq_seq").alias("began"),
        )
        .groupBy(*key)
        .agg(
            F.array_sort(F.collect_list(F.struct(*names))).alias("parts"),
            F.array_sort(F.collect_list(F.struct("began", *names))).alias("began"),
        )
    )
    per_test = tests.groupBy(*key).agg(F.min_by("outcome", "worker").alias("outcome"))
    joined = null_safe_join(per_test, counted, key, "full")
    commits = runs.where(F.col("files") > 0).groupBy("run").agg(F.max("commit").alias("commit"))
    return (
        joined.join(commits, "run", "left")
        .withColumn("parts", F.coalesce("parts", F.array().cast(schema.FINGERPRINTS["parts"].dataType)))
        .select(
            *key,
            *("commit", "outcome"),
            _digest("parts").alias("fp"),
            _digest("began").alias("order_fp"),
            "parts",
        )
    )


def flaky(fingerprints: DataFrame) -> DataFrame:
    """Count the behaviours that each test had on one commit, and name the first queue (by name) in which they differ.

    `entropy` is in bits: 0 if all runs were alike, 1 if two behaviours were equally frequent.
    """
    key = ["commit", "test"]
    behaviours = fingerprints.groupBy(*key, "fp").agg(F.count(F.lit(1)).alias("n"))
    totals = behaviours.groupBy(*key).agg(
        F.count(F.lit(1)).alias("behaviours"),
        F.sum("n").alias("runs"),
        F.sum(F.col("n") * F.log2("n")).alias("weight"),
    )
    shared = (
        fingerprints.select(*key, F.explode("parts").alias("part"))
        .groupBy(*key, "part")
        .agg(F.count(F.lit(1)).alias("seen"))
    )
    partly = (
        null_safe_join(shared, totals.select(*key, "runs"), key)
        .where(F.col("seen") < F.col("runs"))
        .groupBy(*key)
        .agg(F.min("part.queue").alias("first_differing_queue"))
    )
    entropy = F.round(F.log2("runs") - F.col("weight") / F.col("runs"), 6)
    return null_safe_join(totals, partly, key).select(
        *key, "behaviours", "runs", (entropy + F.lit(0.0)).alias("entropy"), "first_differing_queue"
    )


def fault_effect(control: DataFrame, tests: DataFrame, test_queues: DataFrame) -> DataFrame:
    """Return how often each fault fired in a test, how the test ended, and counts of its queues."""
    key = [*FILE_KEY, "test"]
    struck = (
        control.where(F.col("kind") == "fault")
        .groupBy(
            *key, F.get_json_object("attrs", "$.fault").alias("fault"), F.get_json_object("attrs", "$.on").alias("on")
        )
        .agg(F.count(F.lit(1)).alias("struck"))
    )
    dead = sum((F.col(f"dead_{reason}") for reason in DEATH_REASONS), F.lit(0))
    seen = test_queues.groupBy(*key).agg(
        F.sum("copies").alias("copies"),
        F.sum("redeliveries").alias("redeliveries"),
        F.sum(dead).alias("dead_letters"),
        F.sum("leaked").alias("leaked"),
    )
    with_outcome = null_safe_join(struck, tests.select(*key, "outcome"), key)
    joined = null_safe_join(with_outcome, seen, key)
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in ("copies", "redeliveries", "dead_letters", "leaked")]
    return joined.select(*key, "fault", "on", "struck", "outcome", *counts)


def _named(number: Column, numbers: dict[str, int]) -> Column:
    names = F.array(*[F.lit(name) for name in numbers])
    return F.get(names, (number - 1).cast("int"))


def _digest(parts: str) -> Column:
    texts = F.transform(
        F.col(parts), lambda part: F.concat_ws(":", part["queue"], part["outcome"], part["n"], part["requeues"])
    )
    return F.sha2(F.concat_ws("\n", texts), 256)


TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        Table("control", schema.CONTROL, ("run", "worker", "seq"), ("events",), lifecycle.control),
        Table("copies", schema.COPIES, tuple(lifecycle.COPY_KEY), ("events",), lifecycle.copies),
        Table("messages", schema.MESSAGES, ("run", "worker", "msg"), ("events", "copies"), lifecycle.messages),
        Table("tests", schema.TESTS, ("run", "worker", "test"), ("control", "messages"), lifecycle.tests),
        Table("consumers", schema.CONSUMERS, tuple(lifecycle.HOLDER_KEY), ("events", "copies"), holds.consumers),
        Table(
            "routes",
            schema.ROUTES,
            ("day", "run", "vhost", "kind", "exchange", "routing_key", "queue"),
            ("events", "messages"),
            coverage.routes,
        ),
        Table("test_queues", schema.TEST_QUEUES, tuple(QUEUE_KEY), ("copies",), test_queues),
        Table(
            "latency_hist",
            schema.LATENCY_HIST,
            ("day", "run", "vhost", "queue", "measure", "bucket"),
            ("copies",),
            latency_hist,
        ),
        Table(
            "queue_stats",
            schema.QUEUE_STATS,
            ("day", "run", "vhost", "queue"),
            ("test_queues", "latency_hist"),
            queue_stats,
        ),
        Table(
            "consumer_stats",
            schema.CONSUMER_STATS,
            ("day", "run", "vhost", "queue", "consumer"),
            ("consumers",),
            consumer_stats,
        ),
        Table(
            "run_lineage",
            schema.RUN_LINEAGE,
            ("day", "run", "test", "from_queue", "reason", "to_queue"),
            ("copies",),
            run_lineage,
        ),
        Table(
            "run_coverage",
            schema.RUN_COVERAGE,
            ("day", "run", "kind", "name"),
            ("control", "routes", "consumers"),
            coverage.run_coverage,
        ),
        Table(
            "fingerprints",
            schema.FINGERPRINTS,
            ("day", "run", "test"),
            ("copies", "tests", "runs"),
            fingerprints,
        ),
        Table(
            "fault_effect",
            schema.FAULT_EFFECT,
            ("day", "run", "worker", "test", "fault", "on"),
            ("control", "tests", "test_queues"),
            fault_effect,
        ),
        Table(
            "violations",
            schema.VIOLATIONS,
            ("run", "worker", "test", "vhost", "queue", "msg", "copy", "rule"),
            ("events", "runs", "control", "copies", "messages", "consumers", "test_queues"),
            rules.violations,
        ),
        Table(
            "lineage",
            schema.LINEAGE,
            ("from_queue", "reason", "to_queue"),
            ("run_lineage",),
            lineage,
            across_runs=True,
        ),
        Table("coverage", schema.COVERAGE, ("kind", "name"), ("run_coverage",), coverage.coverage, across_runs=True),
        Table("flaky", schema.FLAKY, ("commit", "test"), ("fingerprints",), flaky, across_runs=True),
    )
}
