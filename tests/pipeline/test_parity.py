"""The parts of a trace that must be equal on leveret and on RabbitMQ, and those that cannot be.

Each case is a run of its own in both traces, and all cases are compared at once.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

from leveret.pipeline import parity
from leveret.pipeline.frames import spark_schema
from leveret.pipeline.kernel.schema import EVENTS
from tests.pipeline.kernel_campaign import events_of
from tests.pipeline.plain import Row, Trace

Differences = dict[str, list[SparkRow]]


def _published(msg: int, *queues: str, headers: dict[str, Any] | None = None, **more: Any) -> list[Row]:
    attrs = json.dumps({"properties": {"priority": 1, "headers": headers or {}}})
    address = {"exchange": "x", "routing_key": "k"}
    event = {"kind": "published", "msg": msg, **address, "body_hash": f"hash{msg}", "attrs": attrs, **more}
    copies = [{"kind": "enqueued", "msg": msg, "copy": msg * 10 + n, "queue": queue} for n, queue in enumerate(queues)]
    return [event, *copies]


def _told_by_firehose(*queues: str, **more: Any) -> list[Row]:
    attrs = json.dumps({"properties": {"priority": 1, "headers": {}}, "routed_queues": list(queues)})
    return _published(1, attrs=attrs, **more)


def _delivered(msg: int, queue: str, **more: Any) -> Row:
    told = {"kind": "delivered", "msg": msg, "copy": msg * 10, "queue": queue, "exchange": "x", "routing_key": "k"}
    return {**told, "redelivered": False, **more}


def _with_headers(**headers: Any) -> str:
    return json.dumps({"properties": {"delivery_mode": 1, "headers": headers}})


def _dead(reason: str, time: int, **headers: str) -> list[Row]:
    x_death = [{"queue": "q", "reason": reason, "count": 1, "time": time}]
    return [_delivered(1, "dead", attrs=_with_headers(**{"x-death": x_death, **headers}))]


def _counted(count: int) -> list[Row]:
    return [_delivered(1, "q", attrs=_with_headers(**{"x-delivery-count": count}))]


_BOTH = [*_published(1, "q"), *_published(2, "q")]
_STORED = _with_headers(**{"x-stream-offset": 0})
_LOGGED, _COPY = _published(1, "log")
_HISTORY = {"kind": "exchange_declare", "exchange": "x", "attrs": json.dumps({"type": "x-recent-history"})}
_WATCHED = _delivered(2, "watching", exchange="amq.rabbitmq.trace", routing_key="deliver.q")
CASES: dict[str, tuple[list[Row], list[Row]]] = {
    "names and numbers": (
        [*_published(1, "q", "amq.gen-JzTY20BR", conn=1), _delivered(1, "q", consumer="c1", tag=1)],
        [*_published(7, "amq.gen-Xa9-_Q", "q", conn=5, body_hash="hash1"), _delivered(7, "q", consumer="c", tag=9)],
    ),
    "order": (
        [*_BOTH, _delivered(1, "q"), _delivered(2, "q")],
        [*_BOTH, _delivered(2, "q"), _delivered(1, "q")],
    ),
    "channels": (
        [*_BOTH, _delivered(1, "q", conn=1, chan=1), _delivered(2, "q", conn=2, chan=1)],
        [*_BOTH, _delivered(2, "q", conn=5, chan=1), _delivered(1, "q", conn=6, chan=1)],
    ),
    "channels in disorder": (
        [*_BOTH, *[_delivered(msg, "q", conn=1, chan=chan) for msg, chan in ((1, 1), (2, 1), (1, 2))]],
        [*_BOTH, *[_delivered(msg, "q", conn=1, chan=chan) for msg, chan in ((1, 2), (2, 1), (1, 1))]],
    ),
    "one more": (_published(1, "q"), [*_published(1, "q"), _delivered(1, "q")]),
    "version": (_dead("rejected", 5), _dead("rejected", 9, **{"x-last-death-queue": "q"})),
    "reason": (_dead("rejected", 5), _dead("expired", 5)),
    "routes": (_told_by_firehose("q"), _told_by_firehose("q", "r")),
    "refused": (_published(1, "r"), _told_by_firehose("q", "r")),
    "strange route": (_published(1, "s"), _told_by_firehose("q", "r")),
    "default exchange": (_published(1, exchange=""), _told_by_firehose("k", exchange="")),
    "firehose": ([*_published(1, "q"), _delivered(1, "q"), _WATCHED], [*_published(1, "q"), _delivered(1, "q")]),
    "history": ([_HISTORY, *_published(1, "bound later")], _told_by_firehose()),
    "counts": (_counted(1), _counted(2)),
    "stream": (
        [_LOGGED, {**_COPY, "attrs": _STORED}, _delivered(1, "log")],
        [_LOGGED, _COPY, _delivered(1, "log", attrs=_STORED, body_hash="hash1")],
    ),
}


@pytest.fixture(scope="module")
def traces(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    made = []
    for side in (0, 1):
        told = [
            Trace(name, "main", date(2026, 1, 1), [{"seq": seq, **event} for seq, event in enumerate(case[side])])
            for name, case in CASES.items()
        ]
        place = Path(tmp_path_factory.mktemp("side"), "events.parquet")
        pq.write_table(events_of(told), place, store_schema=False)
        made.append(spark.read.schema(spark_schema(EVENTS)).parquet(str(place)))
    return made


@pytest.fixture(scope="module")
def differences(traces: list[Any]) -> Differences:
    rows = parity.compare(*traces, ["run"]).orderBy("run", "side", "queue", "position").collect()
    return {name: [row for row in rows if row.run == name] for name in CASES}


def test_order_of_queues_connections_and_made_up_names_do_not_count(differences: Differences) -> None:
    assert differences["names and numbers"] == []


def test_delivery_in_another_order_is_a_difference_with_its_position(differences: Differences) -> None:
    rows = differences["order"]

    assert [(row.side, row.queue, row.position, row.difference) for row in rows] == [
        ("delivered", "q", 1, "differs"),
        ("delivered", "q", 2, "differs"),
    ]
    assert "hash1" in rows[0].left
    assert "hash2" in rows[0].right


def test_order_between_channels_does_not_count_but_that_of_each_channel_does(differences: Differences) -> None:
    assert differences["channels"] == []
    assert len(differences["channels in disorder"]) == 2


def test_a_delivery_in_only_one_trace_is_missing(differences: Differences) -> None:
    assert [(row.difference, row.left, row.position) for row in differences["one more"]] == [("missing", None, 1)]


def test_times_of_deaths_and_headers_of_4_do_not_count_but_reasons_do(differences: Differences) -> None:
    assert differences["version"] == []
    assert len(differences["reason"]) == 1


def test_routes_of_two_firehoses_have_to_be_the_same(differences: Differences) -> None:
    [row] = differences["routes"]

    assert (row.side, row.difference) == ("published", "differs")
    assert row.left.endswith(' to ["q"]')
    assert row.right.endswith(' to ["q","r"]')


def test_a_queue_may_have_refused_what_was_routed_to_it_but_no_other_has_taken_it(differences: Differences) -> None:
    assert differences["refused"] == []
    assert len(differences["strange route"]) == 1


def test_the_default_exchange_routes_to_the_queue_named_by_the_key(differences: Differences) -> None:
    assert differences["default exchange"] == []


def test_a_firehose_does_not_record_itself(differences: Differences) -> None:
    assert differences["firehose"] == []


def test_messages_replayed_to_a_later_binding_are_not_routes(differences: Differences) -> None:
    assert differences["history"] == []


def test_headers_that_a_queue_adds_are_compared_if_both_traces_have_them(
    traces: list[Any], differences: Differences
) -> None:
    counts = [events.where("run = 'counts'") for events in traces]

    assert differences["counts"] == []
    assert len(parity.compare(*counts, ignored_headers=()).collect()) == 1


def test_a_message_in_a_stream_is_compared_as_it_was_stored(differences: Differences) -> None:
    assert differences["stream"] == []
