"""The rows of copies name the same holders as the events."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from leveret.pipeline import holds, lifecycle
from tests.pipeline import frames, random_traces


def test_rows_of_copies_agree_with_their_events(spark: SparkSession, tmp_path: Path) -> None:
    traces = [made.trace for made in random_traces.several(48, seed=4711)]
    events = frames.sources(spark, traces, tmp_path)["events"]
    lifecycle.copies(events).write.parquet(str(tmp_path / "copies"))
    copies = spark.read.parquet(str(tmp_path / "copies"))
    everyone = copies.select(lifecycle.place_of().alias("place"), "msg", "copy")

    found = holds.holds(events, copies).collect()

    asked = holds.looked_up(events, everyone).select(found[0].__fields__).collect()
    assert sorted(map(repr, found)) == sorted(map(repr, asked))
    counts = copies.groupBy("deliveries", holds.says_its_holds().alias("is_said")).count().collect()
    assert {(row.deliveries, row.is_said) for row in counts} >= {(1, True), (2, True), (2, False), (3, False)}
