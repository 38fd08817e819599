"""max-length, max-length-bytes and overflow: which message is dropped or refused, and what never counts."""

from __future__ import annotations

import pytest

from tests.model.world import World, bodies, consume, give_back, inbox, take


@pytest.fixture
def world() -> World:
    return World()


def test_a_full_queue_drops_its_oldest_message(world: World) -> None:
    queue = world.queue(max_length=2)

    world.fill(queue, b"1", b"2", b"3")

    assert bodies(queue.ready) == [b"2", b"3"]
    assert [event.reason for event in world.events("dropped")] == ["maxlen"]


def test_a_queue_with_a_maximum_length_of_zero_keeps_nothing(world: World) -> None:
    queue = world.queue(max_length=0)

    world.fill(queue, b"1")

    assert not queue.ready


def test_a_message_that_a_waiting_consumer_takes_never_counts(world: World) -> None:
    queue = world.queue(max_length=0)
    consumer = consume(queue)

    world.fill(queue, b"1", b"2")

    assert inbox(consumer).bodies == [b"1", b"2"]


def test_unacknowledged_messages_do_not_count(world: World) -> None:
    queue = world.queue(max_length=2)
    world.fill(queue, b"1", b"2")
    take(queue, 2)

    world.fill(queue, b"3", b"4")

    assert bodies(queue.ready) == [b"3", b"4"]


def test_a_limit_in_bytes_counts_the_bodies_of_ready_messages(world: World) -> None:
    queue = world.queue(max_length_bytes=10)

    world.fill(queue, b"aaaa", b"bbbb", b"cc", b"d")

    assert bodies(queue.ready) == [b"bbbb", b"cc", b"d"]


def test_a_message_above_the_byte_limit_drops_all_others_and_itself(world: World) -> None:
    queue = world.queue(max_length_bytes=10)
    world.fill(queue, b"1", b"2")

    world.fill(queue, b"x" * 11)

    assert not queue.ready
    assert queue.ready.size_bytes == 0


def test_the_stricter_of_two_limits_applies(world: World) -> None:
    queue = world.queue(max_length=3, max_length_bytes=4)

    world.fill(queue, b"aa", b"bb", b"cc")

    assert bodies(queue.ready) == [b"bb", b"cc"]


def test_a_requeue_over_the_limit_drops_the_head(world: World) -> None:
    queue = world.queue(max_length=3)
    world.fill(queue, b"1", b"2", b"3")
    first, second = take(queue, 2)
    world.fill(queue, b"4", b"5", b"6")

    give_back(queue, first, second)

    assert bodies(queue.ready) == [b"4", b"5", b"6"]


def test_a_queue_with_priorities_drops_the_highest_first(world: World) -> None:
    queue = world.queue(max_length=3, max_priority=5)
    for body, priority in ((b"lo1", 1), (b"hi5a", 5), (b"hi5b", 5), (b"lo1b", 1), (b"mid3", 3)):
        world.fill(queue, body, priority=priority)

    assert bodies(queue.ready) == [b"mid3", b"lo1", b"lo1b"]


def test_a_refusing_queue_takes_exactly_its_limit(world: World) -> None:
    queue = world.queue(max_length=2, overflow="reject-publish")

    taken = [not world.publish(body).is_refused for body in (b"1", b"2", b"3")]

    assert taken == [True, True, False]
    assert bodies(queue.ready) == [b"1", b"2"]


def test_a_refusing_queue_refuses_even_if_a_consumer_waits(world: World) -> None:
    queue = world.queue(max_length=0, overflow="reject-publish")
    consumer = consume(queue)

    published = world.publish(b"1")

    assert (published.is_routed, published.is_refused) == (True, True)
    assert inbox(consumer).bodies == []


def test_a_refusing_queue_keeps_all_requeued_messages(world: World) -> None:
    queue = world.queue(max_length=3, overflow="reject-publish")
    world.fill(queue, b"1", b"2")
    entries = take(queue, 2)
    world.fill(queue, b"4", b"5", b"6")

    give_back(queue, *entries)

    assert bodies(queue.ready) == [b"1", b"2", b"4", b"5", b"6"]


def test_a_refused_message_may_be_dead_lettered_as_well(world: World) -> None:
    world.queue(max_length=1, overflow="reject-publish-dlx", dead_letter_exchange="", dead_letter_routing_key="grave")
    grave = world.queue("grave")
    world.publish(b"1")

    published = world.publish(b"2")

    assert published.is_refused
    assert bodies(grave.ready) == [b"2"]


def test_one_full_queue_refuses_though_the_others_take_the_message(world: World) -> None:
    full, free = world.queue("full", max_length=0, overflow="reject-publish"), world.queue("free")
    for queue in (full, free):
        world.bind("amq.fanout", queue.name)

    published = world.publish(b"1", exchange="amq.fanout")

    assert published.is_refused
    assert (bodies(full.ready), bodies(free.ready)) == ([], [b"1"])


def test_a_message_that_a_full_queue_drops_is_dead_lettered(world: World) -> None:
    world.queue(max_length=1, dead_letter_exchange="", dead_letter_routing_key="grave")
    grave = world.queue("grave")

    world.publish(b"1")
    world.publish(b"2")

    assert bodies(grave.ready) == [b"1"]
    assert not world.events("dropped")
    assert [event.reason for event in world.events("dead_lettered")] == ["maxlen"]


def test_a_policy_trims_a_queue_at_once(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2", b"3")

    queue.apply(queue.settings._replace(max_length=1))

    assert bodies(queue.ready) == [b"3"]
