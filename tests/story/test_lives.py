"""The lives of messages: how each copy stands after what happened to it, from events and from rows alike."""

from __future__ import annotations

import pytest

from leveret.story.clients import Clients
from leveret.story.entities import MessageLife, end_text, successions
from leveret.story.timeline import Timeline
from leveret.trace.recorded_rows import raw_events

Row = dict[str, object]


def fact(kind: str, **columns: object) -> Row:
    return {"kind": kind, "msg": 1, "vhost": "/", "attrs": {}, **columns}


def life(*rows: Row) -> MessageLife:
    """Return the life of a message to which this happened."""
    return Timeline(raw_events(rows)).messages[1]


ENQUEUED = fact("enqueued", copy=1, queue="jobs")
DELIVERED = fact("delivered", copy=1, queue="jobs", conn=2, chan=1)


@pytest.mark.parametrize(
    ("happened", "state", "text"),
    [
        ((ENQUEUED,), "ready", "ready in jobs"),
        ((ENQUEUED, DELIVERED), "unacked", "unacked in jobs, held by c2"),
        ((ENQUEUED, DELIVERED, fact("acked", copy=1)), "acked", "acked in jobs by c2"),
        (
            (ENQUEUED, DELIVERED, fact("acked", copy=1, reason="no_ack")),
            "no_ack",
            "delivered from jobs with no_ack by c2",
        ),
        ((ENQUEUED, DELIVERED, fact("requeued", copy=1)), "undecided", "ready again in jobs after 1"),
        ((ENQUEUED, fact("purged", copy=1, reason="queue_deleted")), "queue_deleted", "deleted with jobs"),
        ((ENQUEUED, DELIVERED, fact("nacked", copy=1)), "nacked", "nacked in jobs by c2"),
    ],
)
def test_a_copy_stands_as_its_last_event_left_it(happened: tuple[Row, ...], state: str, text: str) -> None:
    copy = life(*happened).copies[1]
    slots = {
        "queue": copy.queue.name,
        "holder": "c2" if copy.deliveries else "",
        "often": "1" if copy.requeue_count else "",
    }

    assert copy.stand == state
    assert end_text(copy.stand, lambda name: slots.get(name, ""), is_drawn=True) == text


def test_a_dead_letter_goes_on_as_another_copy() -> None:
    died = fact("dead_lettered", copy=1, queue="jobs", reason="expired")
    message = life(ENQUEUED, died, fact("enqueued", copy=2, src_copy=1, queue="dead"))

    assert message.copies[1].arrivals == ["dead"]
    assert [copy.queue.name for copy in message.last_ends] == ["dead"]


def test_the_return_of_a_message_says_more_than_its_drop() -> None:
    published, dropped, returned = fact("published"), fact("dropped"), fact("returned", reason="NO_ROUTE")

    for happened in ((published, dropped, returned), (published, returned, dropped)):
        lost = life(*happened).lost
        assert lost is not None
        assert lost.kind == "returned"


def test_what_happened_before_the_test_is_known_and_is_not_recent() -> None:
    timeline = Timeline(raw_events((ENQUEUED, {"kind": "test_start", "attrs": {"test": "it"}}, DELIVERED)))

    assert [fact.kind for fact in timeline.recent] == ["test_start", "delivered"]
    assert [fact.kind for fact in timeline.copies[1].facts] == ["enqueued", "delivered"]


def test_a_client_has_a_name_and_roles_and_an_end() -> None:
    rows = (
        fact("conn_open", conn=3, attrs={"client": "till", "user": "guest"}),
        fact("published", conn=3, chan=1),
        fact("conn_close", conn=3, reason="connection reset", ts=7),
    )
    timeline, clients = Timeline(raw_events(rows)), Clients()
    clients.take(timeline.facts[0])

    client = timeline.connections[3]
    assert client.closed is not None
    assert (client.name, list(client.roles), client.is_lost, client.closed.at) == ("till", ["publisher"], True, 7)
    assert clients.who(timeline.facts[1]) == timeline.who(timeline.facts[1]) == "till (c3/ch1)"
    assert client.short == "c3 (till)"


def test_a_client_that_connects_again_goes_on_in_its_role() -> None:
    rows = [
        row
        for number, kind in ((1, "published"), (2, "confirmed"), (3, "delivered"))
        for row in (
            fact("conn_open", conn=number, attrs={"client": "till"}),
            fact(kind, conn=number, chan=1, copy=1, queue="jobs"),
            fact("conn_close", conn=number),
        )
    ]

    found = successions(Timeline(raw_events(rows)).connections.values())

    assert [[one.number for one in client] for client in found] == [[1, 2], [3]]
