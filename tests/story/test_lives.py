"""The lives of messages: how each copy stands after what happened to it, from events and from rows alike."""

from __future__ import annotations

import pytest

from leveret.story.clients import Clients
from leveret.story.facts import RowFact
from leveret.story.lives import MessageLife, end_text


def fact(kind: str, **columns: object) -> RowFact:
    return RowFact({"kind": kind, "msg": 1, "vhost": "/", "attrs": {}, **columns})


def life(*facts: RowFact) -> MessageLife[RowFact]:
    """Return the life of a message to which this happened."""
    message: MessageLife[RowFact] = MessageLife(1, "/")
    for one in facts:
        message.live(one)
    return message


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
def test_a_copy_stands_as_its_last_event_left_it(happened: tuple[RowFact, ...], state: str, text: str) -> None:
    copy = life(*happened).copies[1]
    slots = {"queue": copy.queue, "holder": "c2" if copy.deliveries else "", "often": "1" if copy.requeue_count else ""}

    assert copy.state == state
    assert end_text(copy, lambda name: slots.get(name, ""), is_drawn=True) == text


def test_a_dead_letter_goes_on_as_another_copy() -> None:
    died = fact("dead_lettered", copy=1, queue="jobs", reason="expired")
    message = life(ENQUEUED, died, fact("enqueued", copy=2, src_copy=1, queue="dead"))

    assert message.arrivals(1) == ["dead"]
    assert [copy.queue for copy in message.last_ends] == ["dead"]


def test_the_return_of_a_message_says_more_than_its_drop() -> None:
    returned = fact("returned", reason="NO_ROUTE")

    assert life(fact("published"), fact("dropped"), returned).lost is returned
    assert life(fact("published"), returned, fact("dropped")).lost is returned


def test_what_happened_before_the_test_is_known_and_is_not_recent() -> None:
    message: MessageLife[RowFact] = MessageLife(1, "/")
    message.live(ENQUEUED, is_recent=False)
    assert not message.is_recent

    message.live(DELIVERED)
    assert message.is_recent
    assert message.copies[1].recent == [DELIVERED]


def test_a_client_has_a_name_and_roles_and_an_end() -> None:
    clients = Clients()
    for one in (
        fact("conn_open", conn=3, attrs={"client": "till", "user": "guest"}),
        fact("published", conn=3, chan=1),
        fact("conn_close", conn=3, reason="connection reset", ts=7),
    ):
        clients.take(one)

    client = clients.known[3]
    assert (client.name, list(client.roles), client.is_lost, client.closed_at) == ("till", ["publisher"], True, 7)
    assert clients.who(fact("published", conn=3, chan=1)) == "till (c3/ch1)"
    assert clients.short(3) == "c3 (till)"
