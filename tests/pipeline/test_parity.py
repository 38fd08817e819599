"""What of a trace has to be the same on leveret and on RabbitMQ, and what cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from leveret.pipeline import parity
from tests.pipeline import frames
from tests.pipeline.plain import Row, Trace

Events = Callable[..., DataFrame]


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> Events:
    def make(name: str, *told: Row) -> DataFrame:
        folder = tmp_path / name
        folder.mkdir()
        rows = [{"seq": seq, **event} for seq, event in enumerate(told)]
        return frames.sources(spark, [Trace(name, "main", date(2026, 1, 1), rows)], folder)["events"]

    return make


def _published(msg: int, *queues: str, headers: dict[str, Any] | None = None, **more: Any) -> list[Row]:
    attrs = json.dumps({"properties": {"priority": 1, "headers": headers or {}}})
    address = {"exchange": "x", "routing_key": "k"}
    event = {"kind": "published", "msg": msg, **address, "body_hash": f"hash{msg}", "attrs": attrs, **more}
    copies = [{"kind": "enqueued", "msg": msg, "copy": msg * 10 + n, "queue": queue} for n, queue in enumerate(queues)]
    return [event, *copies]


def _delivered(msg: int, queue: str, **more: Any) -> Row:
    told = {"kind": "delivered", "msg": msg, "copy": msg * 10, "queue": queue, "exchange": "x", "routing_key": "k"}
    return {**told, "redelivered": False, **more}


def test_order_of_queues_connections_and_made_up_names_do_not_count(events: Events) -> None:
    embedded = events("a", *_published(1, "q", "amq.gen-JzTY20BR", conn=1), _delivered(1, "q", consumer="c1", tag=1))
    there = _published(7, "amq.gen-Xa9-_Q", "q", conn=5, body_hash="hash1")
    rabbit = events("b", *there, _delivered(7, "q", consumer="other", tag=9))

    assert parity.project(embedded).count() == 2
    assert parity.compare(embedded, rabbit).collect() == []


def test_delivery_in_another_order_differs_and_is_told_by_position(events: Events) -> None:
    both = [*_published(1, "q"), *_published(2, "q")]
    embedded = events("a", *both, _delivered(1, "q"), _delivered(2, "q"))
    rabbit = events("b", *both, _delivered(2, "q"), _delivered(1, "q"))

    rows = parity.compare(embedded, rabbit).orderBy("position").collect()

    assert [(row.side, row.queue, row.position, row.difference) for row in rows] == [
        ("delivered", "q", 1, "differs"),
        ("delivered", "q", 2, "differs"),
    ]
    assert "hash1" in rows[0].left
    assert "hash2" in rows[0].right


def test_what_only_one_of_them_delivered_is_missing(events: Events) -> None:
    embedded = events("a", *_published(1, "q"))
    rabbit = events("b", *_published(1, "q"), _delivered(1, "q"))

    rows = parity.compare(embedded, rabbit).collect()

    assert [(row.difference, row.left, row.position) for row in rows] == [("missing", None, 1)]


def test_times_of_deaths_and_headers_of_4_do_not_count_but_reasons_do(events: Events) -> None:
    def dead(reason: str, time: int, **headers: str) -> Row:
        x_death = [{"queue": "q", "reason": reason, "count": 1, "time": time}]
        attrs = json.dumps({"properties": {"headers": {"x-death": x_death, **headers}}})
        return _delivered(1, "dead", attrs=attrs)

    old = events("old", dead("rejected", 5))
    new = events("new", dead("rejected", 9, **{"x-last-death-queue": "q"}))
    other = events("other", dead("expired", 5))

    assert parity.compare(old, new).collect() == []
    assert len(parity.compare(old, other).collect()) == 1
