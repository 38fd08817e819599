"""Time to live of messages and of queues, in virtual time."""

from __future__ import annotations

import pytest

from tests.model.world import World, bodies, consume, give_back, inbox, take


@pytest.fixture
def world() -> World:
    return World()


def test_a_message_expires_when_its_time_has_come_and_not_before(world: World) -> None:
    queue = world.queue(message_ttl=1000)
    world.fill(queue, b"1")

    world.elapse(999)
    before = bodies(queue.ready)
    world.elapse(1)

    assert (before, bodies(queue.ready)) == ([b"1"], [])
    assert [event.at for event in world.events("expired")] == [1_000_000]


def test_the_shorter_of_queue_ttl_and_expiration_applies(world: World) -> None:
    queue = world.queue(message_ttl=1000)
    world.fill(queue, b"short", expiration="500")
    world.fill(queue, b"long", expiration="5000")

    world.elapse(500)
    after_half = bodies(queue.ready)
    world.elapse(500)

    assert (after_half, bodies(queue.ready)) == ([b"long"], [])


def test_a_message_behind_a_longer_lived_one_stays(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"long", expiration="5000")
    world.fill(queue, b"short", expiration="100")

    world.elapse(1000)
    hidden = bodies(queue.ready)
    world.elapse(4000)

    assert (hidden, bodies(queue.ready)) == ([b"long", b"short"], [])


def test_a_hidden_message_expires_as_soon_as_it_is_the_head(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"long")
    world.fill(queue, b"short", expiration="100")
    world.elapse(1000)

    take(queue)

    assert not queue.ready
    assert [event.kind for event in world.events("expired")] == ["expired"]


def test_a_message_with_a_ttl_of_zero_goes_to_a_waiting_consumer(world: World) -> None:
    queue = world.queue(message_ttl=0)
    consumer = consume(queue)

    world.fill(queue, b"1")

    assert inbox(consumer).bodies == [b"1"]


def test_a_message_with_a_ttl_of_zero_expires_at_once_without_a_consumer(world: World) -> None:
    queue = world.queue()

    world.fill(queue, b"1", expiration="0")

    assert not queue.ready
    assert [event.kind for event in world.events("enqueued", "expired")] == ["enqueued", "expired"]


def test_an_unacknowledged_message_does_not_expire(world: World) -> None:
    queue = world.queue(message_ttl=100)
    world.fill(queue, b"1")
    take(queue)

    world.elapse(1000)

    assert len(queue.unacked) == 1
    assert not world.events("expired")


def test_a_message_requeued_after_its_deadline_expires_at_once(world: World) -> None:
    queue = world.queue(message_ttl=100)
    world.fill(queue, b"1")
    entries = take(queue)
    world.elapse(1000)

    give_back(queue, *entries)

    assert not queue.ready
    assert world.kinds_of(entries[0].copy) == ["enqueued", "requeued", "expired"]


def test_a_requeued_message_keeps_its_deadline(world: World) -> None:
    queue = world.queue(message_ttl=1000)
    world.fill(queue, b"1")
    entries = take(queue)
    world.elapse(600)
    give_back(queue, *entries)

    world.elapse(400)

    assert not queue.ready


def test_a_low_priority_message_behind_a_live_high_one_stays(world: World) -> None:
    queue = world.queue(max_priority=5)
    world.fill(queue, b"high", priority=5)
    world.fill(queue, b"low", priority=1, expiration="100")

    world.elapse(1000)

    assert bodies(queue.ready) == [b"high", b"low"]


def test_the_age_of_a_later_message_of_high_priority_is_not_checked(world: World) -> None:
    queue = world.queue(max_priority=5)
    world.fill(queue, b"low", priority=1, expiration="1000")
    world.fill(queue, b"high", priority=5, expiration="100")

    world.elapse(100)
    left = bodies(queue.ready)
    world.elapse(900)

    assert (left, bodies(queue.ready)) == ([b"high", b"low"], [])


def test_a_new_ttl_applies_to_later_messages(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"old")
    queue.apply(queue.settings._replace(message_ttl_us=100_000))
    world.fill(queue, b"new")

    world.elapse(1000)

    assert bodies(queue.ready) == [b"old", b"new"]
    assert [entry.expires_at for entry in queue.ready] == [None, 100_000]


def test_an_expired_copy_is_traced_as_expired_then_dead_lettered(world: World) -> None:
    queue = world.queue(message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="grave")
    world.queue("grave")
    world.fill(queue, b"1")
    (entry,) = queue.ready

    world.elapse(100)

    assert world.kinds_of(entry.copy) == ["enqueued", "expired", "dead_lettered"]


def test_an_unused_queue_expires_to_the_millisecond(world: World) -> None:
    world.queue(expires=1000)

    world.elapse(999)
    is_there_before = "q" in world.vhost.queues
    world.elapse(1)

    assert is_there_before
    assert "q" not in world.vhost.queues
    assert world.events("queue_delete")[0].reason == "expired"


def test_a_declaration_restarts_the_expiry_of_a_queue(world: World) -> None:
    world.queue(expires=1000)
    world.elapse(900)

    world.queue(expires=1000)
    world.elapse(900)

    assert "q" in world.vhost.queues


def test_a_get_restarts_the_expiry_of_a_queue(world: World) -> None:
    queue = world.queue(expires=1000)
    world.elapse(900)

    queue.get(no_ack=True)
    world.elapse(900)

    assert "q" in world.vhost.queues


def test_a_publish_does_not_restart_the_expiry_of_a_queue(world: World) -> None:
    world.queue(expires=1000)
    world.elapse(900)

    world.publish(b"1")
    world.elapse(100)

    assert "q" not in world.vhost.queues


def test_a_queue_does_not_expire_while_it_has_a_consumer(world: World) -> None:
    queue = world.queue(expires=1000)
    consumer = consume(queue)
    world.elapse(5000)
    is_there_with_consumer = "q" in world.vhost.queues

    queue.remove_consumer(consumer)
    world.elapse(1000)

    assert is_there_with_consumer
    assert "q" not in world.vhost.queues


def test_an_expired_queue_dead_letters_nothing(world: World) -> None:
    world.queue(expires=1000, dead_letter_exchange="", dead_letter_routing_key="grave")
    grave = world.queue("grave")
    world.publish(b"1")

    world.elapse(1000)

    assert not grave.ready
    assert [event.reason for event in world.events("purged")] == ["queue_deleted"]


def test_a_queue_has_one_timer_for_all_its_messages(world: World) -> None:
    queue = world.queue(message_ttl=1000)
    world.fill(queue, *(b"%d" % number for number in range(100)))

    deadlines = []
    while (deadline := world.node.timers.pop_due(10_000_000)) is not None:
        deadlines.append(deadline.deadline)

    assert deadlines == [1_000_000]
