"""Messages twice, out of order, late or not at all; and the same again, by its seed."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker
from tests.users.conftest import told

BODIES = [b"%d" % number for number in range(30)]


@pytest.mark.parametrize(("is_idempotent", "balance"), [(False, 20), (True, 10)])
def test_occurrent_868_a_duplicate_exposes_a_handler_that_is_not_idempotent(broker, work, is_idempotent, balance):
    booked = []

    def book(channel, body):
        if not (is_idempotent and body in booked):
            booked.append(body)

    work("payments", book)
    broker.faults.duplicate()
    broker.publish("", "payments", b"payment 7: 10")
    broker.assert_acked("payments", times=2, timeout=5)

    assert sum(int(body.rpartition(b" ")[2]) for body in booked) == balance


def story(seed: int) -> list[tuple[bytes, bool]]:
    """What a client is handed, under faults that the seed decides about."""
    with Broker(seed=seed) as broker:
        broker.declare_queue("jobs")
        broker.faults.redeliver(probability=0.3)
        broker.faults.reorder(3, probability=0.3)
        for body in BODIES:
            broker.publish("", "jobs", body)
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            broker.clock.hold()
            connection.channel().basic_consume("jobs", lambda *_: None, auto_ack=True)
            broker.clock.advance(1)
        return [(event.message.body, event.redelivered) for event in broker.events.query("delivered")]


def test_edict_355_the_same_seed_gives_the_same_faults():
    """Edict#355, morrow#68, Dekaf#2067: duplicates and another order by a seed, and the same again."""
    first = story(7)

    assert story(7) == first
    assert story(8) != first
    assert {body for body, _ in first} == set(BODIES)
    assert len(first) > len(BODIES)


def test_ruby_kafka_527_no_message_is_missing_although_connections_are_lost_before_acks(broker, work):
    broker.faults.reset_peer(on="basic.ack", probability=0.3, times=10)
    handled = []
    with told(broker) as texts:
        work("jobs", lambda channel, body: handled.append(body))
        for body in BODIES:
            broker.publish("", "jobs", body)

        acked = broker.assert_acked("jobs", times=len(BODIES), timeout=5)

    assert [message.body for message in acked] == BODIES
    assert list(dict.fromkeys(handled)) == BODIES
    assert len(handled) > len(BODIES)
    assert texts == []
