"""Compare what a campaign of workloads left behind, in one run of Spark."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, Row

from leveret.pipeline import parity
from leveret.pipeline.frames import read_events
from leveret.pipeline.spark_session import session
from tests.lockstep.steps import Program, Step
from tests.pipeline.parity_recordings import of_campaign

# The last one is the reference for the others.
WAYS = ("leveret", "leveret-firehose", "rabbitmq")
SHOWN_MAX = 6


def compare(folder: Path) -> list[str]:
    """Print the differences; return the names of the workloads that differ other than by chance."""
    programs = {one.name: one.program for one in of_campaign(folder)}
    differing: Counter[str] = Counter()
    with session("small", memory="2g") as spark:
        ways = {way: read_events(spark, [folder / way]) for way in WAYS}
        # leveret's trace also contains attempts that were abandoned.
        whole = ways["rabbitmq"].select("test").distinct()
        ways = {way: events.join(whole, "test", "left_semi").cache() for way, events in ways.items()}
        for way, events in ways.items():
            print(f"{way}: {counts(events)}", flush=True)
        for left, ignored in ((WAYS[0], parity.IGNORED_HEADERS), (WAYS[1], ())):
            found = parity.compare(ways[left], ways["rabbitmq"], ["test"], ignored_headers=ignored).collect()
            chance = chances(found, programs)
            tests = {row.test for row in found if (row.test, row.queue) not in chance}
            print(f"{left} and rabbitmq: {len(found)} differences, those of {len(tests)} workloads not by chance")
            for row in sorted(found, key=lambda row: (row.test, row.side, row.queue or "", row.position)):
                if (row.test, row.queue) in chance:
                    continue
                differing[row.test] += 1
                if differing[row.test] <= SHOWN_MAX:
                    print(f"  {row.test}: {row.side} {row.queue or ''} {row.position} {row.difference}")
                    print(f"    {left}: {row.left}\n    rabbitmq: {row.right}", flush=True)
            for test, queue in sorted(chance):
                print(f"  {test}: {queue} delivers to several consumers of one channel, in another order", flush=True)
    return sorted(differing)


def chances(found: Iterable[Row], programs: Mapping[str, Program]) -> set[tuple[str, str]]:
    """Return the workloads and queues that deliver the same in another order, to several consumers of one channel.

    If several messages become ready at once, a quorum queue delivers them consumer by consumer; see the exclusions of
    the lockstep machine. A firehose does not name the consumer.
    """
    of_queues: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        of_queues[row.test, row.queue].append(row)
    return {
        (test, queue)
        for (test, queue), rows in of_queues.items()
        if sorted(str(row.left) for row in rows) == sorted(str(row.right) for row in rows)
        and _has_consumers_on_one_channel(programs[test], queue)
    }


def _has_consumers_on_one_channel(program: Program, queue: str) -> bool:
    quorum = {"x-queue-type": "quorum"}.items()
    is_quorum = any(
        step.op == "queue.declare" and step.fields.get("queue") == queue and quorum <= _arguments(step).items()
        for step in program
    )
    places = [
        (step.connection, step.channel)
        for step in program
        if step.op == "basic.consume" and step.fields.get("queue") == queue
    ]
    return is_quorum and len(set(places)) < len(places)


def _arguments(step: Step) -> dict[str, object]:
    arguments = step.fields.get("arguments")
    return arguments if isinstance(arguments, dict) else {}


def counts(events: DataFrame) -> str:
    rows = parity.project(events, ["test"]).groupBy("side").count().collect()
    by_side = {row.side: row["count"] for row in rows}
    return json.dumps(by_side, sort_keys=True)
