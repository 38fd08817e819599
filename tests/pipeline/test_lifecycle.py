"""Rows of copies can be merged, however the events are divided."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from leveret.pipeline import lifecycle
from tests.pipeline import frames, random_traces


def test_copies_of_parts_merge_into_the_copies_of_all(spark: SparkSession, tmp_path: Path) -> None:
    traces = [made.trace for made in random_traces.several(24, seed=77)]
    events = frames.sources(spark, traces, tmp_path)["events"]
    part = F.pmod(F.xxhash64("seq"), F.lit(3))

    parts = [lifecycle.copies(events.where(part == number)) for number in range(3)]

    whole = lifecycle.copies(events).collect()
    merged = lifecycle.merge(*parts).collect()
    assert sorted(map(repr, merged)) == sorted(map(repr, whole))
    assert any(row.deliveries > 1 for row in whole)


def test_outcome_says_where_a_copy_without_an_end_is(spark: SparkSession, tmp_path: Path) -> None:
    trace = random_traces.make(5).trace
    life = {
        "ready": ["enqueued"],
        "unacked": ["enqueued", "delivered"],
        "undecided": ["enqueued", "delivered", "nacked"],
        "dead_lettered": ["enqueued", "expired", "dead_lettered"],
        "purged": ["enqueued", "purged"],
    }
    kinds = [(copy, kind) for copy, kinds in enumerate(life.values()) for kind in kinds]
    trace.events = [
        {"seq": seq, "ts": seq, "kind": kind, "msg": copy, "copy": copy, "queue": "q"}
        for seq, (copy, kind) in enumerate(kinds)
    ]
    events = frames.sources(spark, [trace], tmp_path)["events"]

    rows = lifecycle.outcome(lifecycle.copies(events)).orderBy("copy").collect()

    assert [row.outcome for row in rows] == list(life)
