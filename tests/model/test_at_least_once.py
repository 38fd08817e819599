"""At-least-once dead-lettering of quorum queues: a dying message waits for its targets."""

from __future__ import annotations

import pytest

from leveret import Broker

AT_LEAST_ONCE = {
    "x-queue-type": "quorum",
    "x-dead-letter-exchange": "graves",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
    "x-message-ttl": 1000,
}


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.clock.hold()
        broker.declare_exchange("graves", "fanout")
        broker.declare_queue("work", arguments=AT_LEAST_ONCE)
        yield broker


def test_a_letter_without_a_route_arrives_at_the_next_attempt_after_a_queue_is_bound(broker):
    broker.publish("", "work", "late")
    broker.clock.advance(seconds=1)
    assert len(broker.queue("work").ready) == 0

    broker.declare_queue("grave")
    broker.bind_queue("grave", "graves")
    broker.clock.advance(minutes=3)

    assert [message.text for message in broker.queue("grave").ready] == ["late"]


def test_a_full_target_gets_its_letter_once_it_has_room(broker):
    broker.declare_queue("grave", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    broker.bind_queue("grave", "graves")
    broker.publish("", "work", "first")
    broker.publish("", "work", "second")
    broker.clock.advance(seconds=1)
    assert [message.text for message in broker.queue("grave").ready] == ["first"]

    broker.purge_queue("grave")
    broker.clock.advance(minutes=3)

    assert [message.text for message in broker.queue("grave").ready] == ["second"]


def test_a_target_that_took_a_letter_does_not_get_it_again(broker):
    broker.declare_queue("free")
    broker.declare_queue("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    broker.bind_queue("free", "graves")
    broker.bind_queue("full", "graves")

    broker.publish("", "work", "one")
    broker.clock.advance(minutes=10)

    assert len(broker.queue("free").ready) == 1


def test_a_letter_that_waits_for_a_route_is_purged_with_its_queue(broker):
    broker.publish("", "work", "late")
    broker.clock.advance(seconds=1)

    broker.delete_queue("work")

    assert [event.reason for event in broker.events.query("purged")] == ["queue_deleted"]


def test_a_letter_that_waits_for_a_full_target_is_dead_lettered_and_not_purged_with_its_queue(broker):
    broker.declare_queue("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    broker.bind_queue("full", "graves")
    broker.publish("", "work", "late")
    broker.clock.advance(seconds=1)

    broker.delete_queue("work")

    assert [event.kind for event in broker.events.query("purged", "dead_lettered")] == ["dead_lettered"]


def test_without_reject_publish_the_strategy_falls_back_to_at_most_once(broker):
    without_overflow = {name: value for name, value in AT_LEAST_ONCE.items() if name != "x-overflow"}
    broker.declare_queue("lax", arguments=without_overflow)
    broker.publish("", "lax", "lost")
    broker.clock.advance(seconds=1)

    broker.declare_queue("grave")
    broker.bind_queue("grave", "graves")
    broker.clock.advance(minutes=10)

    assert len(broker.queue("grave").ready) == 0
