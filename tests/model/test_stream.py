"""Streams: readers with their own offsets, credit, retention, filters, and what stays in the log."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest

from leveret.core.model.errors import NotImplementedByBroker, PreconditionFailed
from leveret.core.wire.values import Field
from tests.model.streams import read, settle, stream
from tests.model.world import Inbox, World, bodies, consume, headers_of, inbox


@pytest.fixture
def world() -> World:
    return World()


def test_reading_takes_nothing_out(world: World) -> None:
    queue = stream(world, b"0", b"1")

    consumer = read(queue)
    settle(queue, consumer, 2)

    assert inbox(consumer).bodies == [b"0", b"1"]
    assert bodies(queue.ready) == [b"0", b"1"]


def test_every_delivery_carries_its_offset(world: World) -> None:
    queue = stream(world, b"0", b"1")

    consumer = read(queue)

    assert [headers_of(entry) for entry in inbox(consumer)] == [{"x-stream-offset": 0}, {"x-stream-offset": 1}]


@pytest.mark.parametrize(
    ("offset", "wanted"),
    [
        ("first", [b"0", b"1", b"2", b"3"]),
        ("last", [b"2", b"3"]),
        ("next", [b"3"]),
        (1, [b"1", b"2", b"3"]),
        (-5, [b"0", b"1", b"2", b"3"]),
        (3, [b"3"]),
        (4, []),
        (Field("T", 0), [b"0", b"1", b"2", b"3"]),
        (Field("T", 60), [b"1", b"2", b"3"]),
        (Field("T", 61), [b"2", b"3"]),
        (Field("T", 500), [b"3"]),
        ("1m", [b"2", b"3"]),
        ("119s", [b"2", b"3"]),
        ("120s", [b"1", b"2", b"3"]),
        ("1h", [b"0", b"1", b"2", b"3"]),
    ],
)
def test_a_reader_begins_at_its_offset(world: World, offset: object, wanted: list[bytes]) -> None:
    queue = stream(world, b"0")
    world.elapse(60_000)
    world.fill(queue, b"1")
    world.elapse(60_000)
    world.fill(queue, b"2")
    world.elapse(60_000)

    consumer = read(queue, offset)
    world.fill(queue, b"3")

    assert inbox(consumer).bodies == wanted


def test_without_an_offset_a_reader_begins_with_the_next_message(world: World) -> None:
    queue = stream(world, b"0")

    consumer = consume(queue, prefetch_count=1)
    world.fill(queue, b"1")

    assert inbox(consumer).bodies == [b"1"]


def test_the_last_of_an_empty_stream_is_the_next(world: World) -> None:
    queue = stream(world)

    consumer = read(queue, "last")
    world.fill(queue, b"0")

    assert inbox(consumer).bodies == [b"0"]


def test_readers_are_independent(world: World) -> None:
    queue = stream(world, b"0", b"1", b"2")
    one, two = read(queue, prefetch_count=1), read(queue, 1, prefetch_count=1)

    settle(queue, one)

    assert inbox(one).bodies == [b"0", b"1"]
    assert inbox(two).bodies == [b"1"]


def test_a_reader_holds_no_more_than_its_prefetch(world: World) -> None:
    queue = stream(world, b"0", b"1", b"2", b"3")
    consumer = read(queue, prefetch_count=2)

    settle(queue, consumer)

    assert inbox(consumer).bodies == [b"0", b"1", b"2"]
    assert consumer.unacked_count == 2


def test_every_settlement_makes_room_and_returns_nothing(world: World) -> None:
    queue = stream(world, b"0", b"1", b"2", b"3")
    consumer = read(queue, prefetch_count=1)
    entries = inbox(consumer)

    queue.discard(entries[0], consumer, is_failure=True)
    queue.requeue([(entries[1], consumer)], "nacked", is_failure=False)
    queue.requeue([(entries[2], consumer)], "recovered", is_failure=False)

    assert entries.bodies == [b"0", b"1", b"2", b"3"]
    assert not any(entry.redelivered for entry in entries)


def test_a_stream_does_not_support_a_dead_letter_exchange(world: World) -> None:
    with pytest.raises(PreconditionFailed, match="of queue type rabbit_stream_queue"):
        stream(world, dead_letter_exchange="amq.fanout")


def test_the_same_copy_may_be_held_by_several(world: World) -> None:
    queue = stream(world, b"0")
    one, two = read(queue), read(queue)

    settle(queue, one)

    assert len(queue.unacked) == 1
    assert (one.unacked_count, two.unacked_count) == (0, 1)


def test_deliveries_of_a_removed_reader_can_still_be_settled(world: World) -> None:
    queue = stream(world, b"0", b"1")
    consumer = read(queue, prefetch_count=1)

    queue.remove_consumer(consumer)
    settle(queue, consumer)

    assert inbox(consumer).bodies == [b"0"]
    assert not queue.unacked


def test_a_full_reader_continues_where_it_stopped(world: World) -> None:
    queue = stream(world)
    consumer = read(queue, prefetch_count=1)
    world.fill(queue, b"0", b"1", b"2")

    settle(queue, consumer)

    assert inbox(consumer).bodies == [b"0", b"1"]


def test_the_cost_of_a_publish_does_not_grow_with_full_readers_or_the_log(world: World) -> None:
    queue = stream(world)
    read(queue, prefetch_count=1)
    world.fill(queue, b"0")
    few = calls_of(lambda: world.fill(queue, b"x"))

    for _ in range(50):
        read(queue, prefetch_count=1)
    world.fill(queue, *[b"x"] * 100)

    assert calls_of(lambda: world.fill(queue, b"x")) == few


def calls_of(action: Callable[[], None]) -> int:
    """Return how many Python functions an action calls."""
    calls = []
    # A collection would count: Hypothesis measures each with a function in Python.
    gc.disable()
    sys.setprofile(lambda frame, event, argument: calls.append(event) if event == "call" else None)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return len(calls)


def test_a_reader_waits_for_an_offset_beyond_the_end(world: World) -> None:
    queue = stream(world, b"0")
    consumer = read(queue, 2)

    world.fill(queue, b"1", b"2", b"3")

    assert inbox(consumer).bodies == [b"2", b"3"]


def test_deleting_a_stream_notifies_its_readers_and_counts_no_messages(world: World) -> None:
    queue = stream(world, b"0")
    consumer = read(queue)

    count = queue.delete()
    world.node.run_work()

    assert count == 0
    assert inbox(consumer).cancellations == ["queue deleted"]
    settle(queue, consumer)


def test_get_and_purge_are_not_implemented(world: World) -> None:
    queue = stream(world)

    with pytest.raises(NotImplementedByBroker, match=r"basic\.get not supported by stream queues"):
        queue.get(no_ack=True)
    with pytest.raises(NotImplementedByBroker, match=r"queue\.purge not supported by stream queues"):
        queue.purge()


def test_everything_survives_a_restart(world: World) -> None:
    queue = stream(world, b"0", b"1")

    world.node.restart()
    world.fill(queue, b"2")

    assert inbox(read(queue)).bodies == [b"0", b"1", b"2"]


def test_a_copy_is_recorded_once_and_never_as_lost(world: World) -> None:
    queue = stream(world, b"0")
    consumer = read(queue)
    settle(queue, consumer)

    (entry,) = queue.ready

    assert world.kinds_of(entry.copy) == ["enqueued"]


def test_before_3_13_reject_and_nack_are_not_implemented() -> None:
    world = World("3.10")
    queue = stream(world, b"0")
    consumer = read(queue)
    (entry,) = inbox(consumer)

    with pytest.raises(NotImplementedByBroker, match=r"basic\.nack and basic\.reject not supported"):
        queue.discard(entry, consumer, is_failure=True)
    queue.requeue([(entry, consumer)], "channel_closed", is_failure=True)


def test_each_subscription_of_a_shared_inbox_gets_each_message_once(world: World) -> None:
    queue = stream(world)
    shared = Inbox()
    for tag in ("a", "b"):
        consume(queue, shared, tag=tag, prefetch_count=10)

    world.fill(queue, b"0")

    assert shared.bodies == [b"0", b"0"]
