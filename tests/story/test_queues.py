"""The queues of a story: what each held at any moment."""

from __future__ import annotations

from leveret.story.facts import RowFact
from leveret.story.queues import Queues
from leveret.trace import events
from leveret.trace.events import Event


def fact(kind: str, **columns: object) -> RowFact:
    return RowFact({"kind": kind, "vhost": "/", "queue": "jobs", "copy": 1, "attrs": {}, **columns})


def counts(queues: Queues) -> list[tuple[int | None, ...]]:
    """Return when the counts of the queue changed, and what was ready, unacked and consuming then."""
    return [(t, *held) for t, _, *held in queues.known["/", "jobs"].counts()]


def test_a_queue_has_its_counts_at_any_moment() -> None:
    queues = Queues()
    happened = ("queue_declare", "consume", "enqueued", "delivered", "acked")
    for t, kind in enumerate(happened):
        queues.take(fact(kind, conn=1, chan=1, consumer="tag"), t * 10, None)

    assert counts(queues) == [(0, 0, 0, 0), (10, 0, 0, 1), (20, 1, 0, 1), (30, 0, 1, 1), (40, 0, 0, 1)]


def test_a_channel_that_closes_takes_its_consumers_along() -> None:
    queues = Queues()
    queues.take(fact("consume", conn=1, chan=1, consumer="tag"), 0, None)
    queues.take(fact("chan_close", conn=1, chan=1, queue=None), 10, None)

    assert counts(queues) == [(0, 0, 0, 1), (10, 0, 0, 0)]


def test_what_was_there_before_the_first_event_is_counted() -> None:
    queues = Queues()
    queues.take(fact("delivered", conn=1, chan=1), 0, None)

    assert counts(queues) == [(0, 0, 1, 0)]


def test_events_of_a_broker_count_as_rows_do() -> None:
    queues = Queues()
    queues.take(Event((events.QUEUE_DECLARE, 0, "/", 1, 1, "jobs", {"x-queue-type": "quorum"})), 0, None)

    assert queues.known["/", "jobs"].type == "quorum"
