"""The counts of a queue: what it held at any moment, as the facts of a timeline show it."""

from __future__ import annotations

from leveret.page.queues import queues_of
from leveret.page.readings.reading import Reading
from leveret.story.entities import CopyLife, QueueLife
from leveret.story.timeline import Timeline
from leveret.trace.recorded_rows import raw_events

Row = dict[str, object]


def happened(kind: str, **columns: object) -> Row:
    return {"kind": kind, "vhost": "/", "queue": "jobs", "msg": 1, "copy": 1, "attrs": {}, **columns}


def counts(*rows: Row) -> list[tuple[int | None, ...]]:
    """Return when the counts of the queue changed, and what was ready, unacked and consuming then."""
    timeline = Timeline(raw_events(rows))
    copies: dict[QueueLife, list[CopyLife]] = {}
    for copy in timeline.copies.values():
        copies.setdefault(copy.queue, []).append(copy)
    queue = queues_of(Reading(timeline, lambda fact: (fact.place * 10, None)))["/", "jobs"]
    series = queue.series(copies, lambda place: (place * 10, None), has_acks=True)
    return [(t, *held) for t, _, *held in series]


def test_a_queue_has_its_counts_at_any_moment() -> None:
    kinds = ("queue_declare", "consume", "enqueued", "delivered", "acked")

    assert counts(*(happened(kind, conn=1, chan=1, consumer="tag", tag=1) for kind in kinds)) == [
        (0, 0, 0, 0),
        (10, 0, 0, 1),
        (20, 1, 0, 1),
        (30, 0, 1, 1),
        (40, 0, 0, 1),
    ]


def test_a_channel_that_closes_takes_its_consumers_along() -> None:
    consume = happened("consume", conn=1, chan=1, consumer="tag")

    assert counts(consume, happened("chan_close", conn=1, chan=1, queue=None)) == [(0, 0, 0, 1), (10, 0, 0, 0)]


def test_what_was_there_before_the_first_event_is_counted() -> None:
    assert counts(happened("delivered", conn=1, chan=1)) == [(0, 0, 1, 0)]


def test_a_queue_that_is_declared_anew_is_empty() -> None:
    kinds = ("queue_declare", "enqueued", "queue_delete", "queue_declare", "enqueued")
    rows = [happened(kind, copy=number) for number, kind in enumerate(kinds)]

    assert counts(*rows) == [(0, 0, 0, 0), (10, 1, 0, 0), (20, 0, 0, 0), (40, 1, 0, 0)]


def test_a_stream_keeps_what_it_hands_out() -> None:
    declared = happened("queue_declare", attrs={"arguments": {"x-queue-type": "stream"}})
    kinds = ("enqueued", "delivered", "acked")

    assert counts(declared, *(happened(kind, conn=1, chan=1, tag=1) for kind in kinds)) == [
        (0, 0, 0, 0),
        (10, 1, 0, 0),
        (20, 1, 1, 0),
        (30, 1, 0, 0),
    ]
