"""A quorum queue: what it does differently from a classic queue."""

from __future__ import annotations

import pytest

from leveret.core.model.errors import NotImplementedByBroker, ResourceLocked
from leveret.core.model.message import QueueEntry
from leveret.core.model.queues.consumer import Consumer
from leveret.core.wire.properties import Properties
from tests.model.world import World, bodies, consume, discard, give_back, inbox, take


@pytest.fixture
def world() -> World:
    return World()


def counts(entry: QueueEntry) -> tuple[int, int]:
    return entry.acquired_count, entry.delivery_count


def delivered_headers(entry: QueueEntry, world: World) -> dict[str, object]:
    octets = world.vhost.queues["q"].delivered_octets(entry, is_get=False)
    headers = None if octets is None else Properties.decode(octets).headers
    return {} if headers is None else headers.to_python()


def fail(queue_consumer: Consumer, entry: QueueEntry) -> None:
    queue_consumer.queue.requeue([(entry, queue_consumer)], "rejected", is_failure=True)


def test_requeued_messages_go_to_the_front_in_order_of_their_return(world: World) -> None:
    queue = world.quorum()
    world.fill(queue, *(b"%d" % number for number in range(1, 7)))
    first, second, *_ = take(queue, 4)

    give_back(queue, second)
    give_back(queue, first)

    assert bodies(queue.ready) == [b"2", b"1", b"5", b"6"]


def test_a_requeued_message_loses_its_priority(world: World) -> None:
    queue = world.quorum()
    world.fill(queue, b"p5", priority=5)
    entries = take(queue)
    world.fill(queue, b"p9", priority=9)

    give_back(queue, *entries)

    assert bodies(take(queue, 2)) == [b"p5", b"p9"]


def test_a_quorum_queue_has_thirty_two_priorities_by_default(world: World) -> None:
    queue = world.quorum()
    for body, priority in ((b"4", None), (b"31", 31), (b"40", 40), (b"3", 3), (b"5", 5)):
        world.fill(queue, body, **({} if priority is None else {"priority": priority}))

    assert bodies(take(queue, 5)) == [b"31", b"40", b"5", b"4", b"3"]


def test_version_4_0_has_two_priorities_and_3_10_none() -> None:
    orders = {}
    for version in ("4.0", "3.10"):
        world = World(version)
        queue = world.quorum()
        for priority in (1, 5, 9, 3):
            world.fill(queue, b"%d" % priority, priority=priority)
        orders[version] = bodies(take(queue, 4))

    assert orders == {"4.0": [b"5", b"9", b"1", b"3"], "3.10": [b"1", b"5", b"9", b"3"]}


def test_a_first_delivery_shows_no_counts(world: World) -> None:
    queue = world.quorum()
    world.fill(queue, b"1")

    (entry,) = take(queue)

    assert delivered_headers(entry, world) == {}


def test_returns_and_failures_are_counted_separately(world: World) -> None:
    queue = world.quorum()
    world.fill(queue, b"1")
    give_back(queue, *take(queue))
    give_back(queue, *take(queue), is_failure=True)

    (entry,) = take(queue)

    assert counts(entry) == (2, 1)
    assert delivered_headers(entry, world) == {"x-acquired-count": 2, "x-delivery-count": 1}


def test_counts_do_not_stay_in_the_message(world: World) -> None:
    queue = world.quorum()
    world.fill(queue, b"1", headers={"a": 1})
    give_back(queue, *take(queue), is_failure=True)

    (entry,) = take(queue)

    assert entry.message.headers is not None
    assert entry.message.headers.to_python() == {"a": 1}
    assert list(delivered_headers(entry, world)) == ["a", "x-acquired-count", "x-delivery-count"]


def test_a_message_survives_as_many_failures_as_the_limit(world: World) -> None:
    queue = world.quorum(delivery_limit=2)
    consumer = consume(queue)
    world.fill(queue, b"1")

    for _ in range(3):
        fail(consumer, inbox(consumer)[-1])

    assert len(inbox(consumer)) == 3
    assert not queue.unacked
    assert [event.reason for event in world.events("dropped")] == ["delivery_limit"]


def test_a_message_that_failed_too_often_is_dead_lettered(world: World) -> None:
    queue = world.quorum(delivery_limit=0, dead_letter_exchange="", dead_letter_routing_key="grave")
    grave = world.queue("grave")
    consumer = consume(queue)
    world.fill(queue, b"1")

    fail(consumer, inbox(consumer)[0])
    world.node.run_work()

    (entry,) = grave.ready
    assert entry.redelivered
    assert [(death.reason, death.death_count) for death in entry.message.deaths] == [("delivery_limit", 1)]


def test_the_default_limit_is_twenty(world: World) -> None:
    queue = world.quorum()
    consumer = consume(queue)
    world.fill(queue, b"1")

    for _ in range(21):
        fail(consumer, inbox(consumer)[-1])

    assert len(inbox(consumer)) == 21
    assert not queue.unacked


def test_returns_that_are_not_failures_are_unlimited(world: World) -> None:
    queue = world.quorum(delivery_limit=1)
    world.fill(queue, b"1")

    for _ in range(50):
        give_back(queue, *take(queue))

    assert bodies(queue.ready) == [b"1"]


def test_failures_in_other_queues_count(world: World) -> None:
    source = world.queue("source", dead_letter_exchange="", dead_letter_routing_key="q")
    queue = world.quorum()
    world.fill(source, b"1")

    discard(source, *take(source), is_failure=True)

    (entry,) = take(queue)
    assert (entry.redelivered, counts(entry)) == (True, (0, 1))


def test_a_return_may_be_delayed(world: World) -> None:
    queue = world.quorum(delayed_retry_type="all", delayed_retry_min=1000)
    consumer = consume(queue)
    world.fill(queue, b"1")

    fail(consumer, inbox(consumer)[0])
    world.elapse(999)
    before = len(inbox(consumer))
    world.elapse(1)

    assert (before, len(inbox(consumer))) == (1, 2)


def test_the_delay_grows_with_the_failures_up_to_its_maximum(world: World) -> None:
    queue = world.quorum(delayed_retry_type="all", delayed_retry_min=1000, delayed_retry_max=2500)
    consumer = consume(queue)
    world.fill(queue, b"1")

    arrivals = []
    for _ in range(4):
        before = world.node.now
        fail(consumer, inbox(consumer)[-1])
        deadline = world.node.next_deadline()
        assert deadline is not None
        world.node.advance(min(deadline, before + 10_000_000), 0)
        arrivals.append((world.node.now - before) // 1000)

    assert arrivals == [1000, 2000, 2500, 2500]


@pytest.mark.parametrize(
    ("kind", "is_failure", "is_delayed"),
    [("failed", True, True), ("failed", False, False), ("returned", False, True), ("returned", True, False)],
)
def test_only_the_configured_kind_of_return_is_delayed(
    world: World, kind: str, is_failure: bool, is_delayed: bool
) -> None:
    queue = world.quorum(delayed_retry_type=kind, delayed_retry_min=1000)
    world.fill(queue, b"1")

    give_back(queue, *take(queue), is_failure=is_failure)

    assert (not queue.ready) is is_delayed


def test_a_purge_drops_delayed_messages_and_counts_them(world: World) -> None:
    queue = world.quorum(delayed_retry_type="all", delayed_retry_min=1000)
    world.fill(queue, b"1", b"2")
    give_back(queue, *take(queue))

    count = queue.purge()
    world.elapse(2000)

    assert (count, len(queue.ready)) == (2, 0)
    assert len(world.events("purged")) == 2


def test_a_deletion_drops_delayed_messages_and_does_not_count_them(world: World) -> None:
    queue = world.quorum(delayed_retry_type="all", delayed_retry_min=1000)
    world.fill(queue, b"1", b"2")
    give_back(queue, *take(queue))

    assert queue.delete() == 1
    assert len(world.events("purged")) == 2
    assert world.node.next_deadline() is None


def test_a_higher_priority_takes_over_from_an_idle_single_active_consumer(world: World) -> None:
    queue = world.quorum(single_active_consumer=True)
    first, second = consume(queue), consume(queue, priority=5)

    world.fill(queue, b"1")

    assert queue.active_consumer is second
    assert (inbox(first).bodies, inbox(second).bodies) == ([], [b"1"])


def test_a_busy_single_active_consumer_gets_nothing_new_and_is_then_replaced(world: World) -> None:
    queue = world.quorum(single_active_consumer=True)
    first = consume(queue)
    world.fill(queue, b"1")
    second = consume(queue, priority=5)
    world.fill(queue, b"2")
    before = (inbox(first).bodies, inbox(second).bodies)

    queue.acknowledge(inbox(first)[0], first)

    assert before == ([b"1"], [])
    assert (inbox(first).bodies, inbox(second).bodies) == ([b"1"], [b"2"])
    assert (first.is_active, second.is_active) == (False, True)


def test_an_equal_priority_does_not_take_over(world: World) -> None:
    queue = world.quorum(single_active_consumer=True)
    first, _ = consume(queue, priority=5), consume(queue, priority=5)

    assert queue.active_consumer is first


def test_the_exclusive_flag_of_a_consumer_is_ignored(world: World) -> None:
    queue = world.quorum()

    consumers = [consume(queue, is_exclusive=True), consume(queue)]

    assert queue.consumers == consumers


def test_get_is_refused_on_a_queue_with_a_single_active_consumer(world: World) -> None:
    queue = world.quorum(single_active_consumer=True)

    with pytest.raises(ResourceLocked, match=r"basic\.get operations are not supported by"):
        queue.get(no_ack=True)


@pytest.mark.parametrize("condition", ["if_unused", "if_empty"])
def test_conditions_of_deletion_are_refused(world: World, condition: str) -> None:
    world.quorum()

    with pytest.raises(NotImplementedByBroker):
        world.vhost.delete_queue("q", **{condition: True})


def test_a_refusing_queue_notices_one_message_late(world: World) -> None:
    queue = world.quorum(max_length=2, overflow="reject-publish")

    taken = [not world.publish(b"%d" % number).is_refused for number in range(5)]

    assert taken == [True, True, True, False, False]
    assert len(queue.ready) == 3


def test_bytes_count_properties_too(world: World) -> None:
    queue = world.quorum(max_length_bytes=10)

    world.fill(queue, b"aaaa", b"bbbb")

    assert bodies(queue.ready) == [b"bbbb"]


def test_bytes_of_returned_messages_count_properties_too(world: World) -> None:
    queue = world.quorum(max_length_bytes=14)
    world.fill(queue, b"aaaa", b"bbbb")
    before = queue.ready.size_bytes

    give_back(queue, *take(queue))

    assert queue.ready.size_bytes == before > 8


def test_returned_messages_are_dropped_first(world: World) -> None:
    queue = world.quorum(max_length=2)
    world.fill(queue, b"1", b"2")
    entries = take(queue)
    world.fill(queue, b"3")

    give_back(queue, *entries)

    assert bodies(queue.ready) == [b"2", b"3"]


def test_a_low_priority_message_behind_a_live_high_one_expires(world: World) -> None:
    queue = world.quorum()
    world.fill(queue, b"high", priority=9)
    world.fill(queue, b"low", priority=1, expiration="100")

    world.elapse(100)

    assert bodies(queue.ready) == [b"high"]


def test_everything_survives_a_restart_in_its_order(world: World) -> None:
    queue = world.quorum()
    world.fill(queue, b"1", b"2", b"3", expiration="1000")
    first, second = take(queue, 2)
    give_back(queue, second)
    give_back(queue, first)

    world.node.restart()
    after = bodies(queue.ready)
    world.elapse(1000)

    assert after == [b"2", b"1", b"3"]
    assert not queue.ready
