"""The differences between two runs, or between two commits."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from leveret.pipeline.diff import READS, diff
from tests.pipeline import frames
from tests.pipeline.plain import Trace


def _trace(run: str, commit: str, messages: int, end: str) -> Trace:
    events = [{"kind": "test_start"}]
    for msg in range(messages):
        about = {"vhost": "/", "queue": "orders", "msg": msg, "copy": msg}
        events.append({"kind": "published", "vhost": "/", "exchange": "", "routing_key": "orders", "msg": msg})
        events.append({"kind": "enqueued", **about, "exchange": "", "routing_key": "orders"})
        events.append({"kind": "got", **about, "redelivered": False})
        events.append({"kind": end, **about})
    events.append({"kind": "test_end", "attrs": '{"outcome":"passed","duration":1}'})
    told = [{"seq": seq, "ts": seq, "test": "test_it", **event} for seq, event in enumerate(events)]
    return Trace(run, "main", date(2026, 1, 1), told, commit)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    folder = tmp_path_factory.mktemp("diff")
    traces = [_trace("a", "old", 2, "acked"), _trace("b", "new", 2, "purged"), _trace("c", "old", 4, "acked")]
    return frames.build(spark, frames.sources(spark, traces, folder), folder, READS)


def _told(rows: list[Row]) -> set[tuple[str, str, str, str, str]]:
    return {(row.side, row.queue, row.difference, row.left, row.right) for row in rows}


def test_runs_differ_in_what_became_of_messages(tables: dict[str, DataFrame]) -> None:
    rows = diff(tables, "a", "b").collect()

    assert _told(rows) == {
        ("queue", "orders", "acked", "2", None),
        ("test", "test_it", "flow", "orders: 2 acked, 0 requeues", "orders: 2 purged, 0 requeues"),
    }


def test_run_does_not_differ_from_itself(tables: dict[str, DataFrame]) -> None:
    assert diff(tables, "a", "a").collect() == []


def test_commit_stands_for_the_mean_of_its_runs(tables: dict[str, DataFrame]) -> None:
    rows = diff(tables, "old", "new").collect()

    assert ("queue", "orders", "copies", "3", "2") in _told(rows)
    flows = "orders: 2 acked, 0 requeues | orders: 4 acked, 0 requeues"
    assert ("test", "test_it", "flow", flows, "orders: 2 purged, 0 requeues") in _told(rows)
