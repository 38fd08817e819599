"""What a campaign of workloads left behind, compared on Spark: all of them in one run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame

from leveret.pipeline import parity
from leveret.pipeline.bronze import read_events
from leveret.pipeline.session import session

# By which of them the others are judged comes last.
WAYS = ("leveret", "leveret-firehose", "rabbitmq")
SHOWN_MAX = 6


def compare(folder: Path) -> list[str]:
    """Print where the ways differ; the names of the workloads that do."""
    differing: Counter[str] = Counter()
    with session("small", memory="2g") as spark:
        ways = {way: read_events(spark, [folder / way]) for way in WAYS}
        # leveret's trace has attempts that were given up as well.
        whole = ways["rabbitmq"].select("test").distinct()
        ways = {way: events.join(whole, "test", "left_semi").cache() for way, events in ways.items()}
        for way, events in ways.items():
            print(f"{way}: {counts(events)}", flush=True)
        for left, ignored in ((WAYS[0], parity.IGNORED_HEADERS), (WAYS[1], ())):
            rows = parity.compare(ways[left], ways["rabbitmq"], ["test"], ignored_headers=ignored)
            found = rows.orderBy("test", "side", "queue", "position").collect()
            print(f"{left} and rabbitmq: {len(found)} differences in {len({row.test for row in found})} workloads")
            for row in found:
                differing[row.test] += 1
                if differing[row.test] <= SHOWN_MAX:
                    print(f"  {row.test}: {row.side} {row.queue or ''} {row.position} {row.difference}")
                    print(f"    {left}: {row.left}\n    rabbitmq: {row.right}", flush=True)
    return sorted(differing)


def counts(events: DataFrame) -> str:
    rows = parity.project(events, ["test"]).groupBy("side").count().collect()
    by_side = {row.side: row["count"] for row in rows}
    return json.dumps(by_side, sort_keys=True)
