"""A classic queue: arrival, delivery, settling, and the turns of consumers."""

from __future__ import annotations

import pytest

from leveret.core.model.errors import AccessRefused, ResourceLocked
from tests.model.world import Inbox, Peer, World, bodies, consume, discard, give_back, inbox, take


@pytest.fixture
def world() -> World:
    return World()


def test_messages_wait_in_order_of_arrival(world: World) -> None:
    queue = world.queue()

    world.fill(queue, b"1", b"2", b"3")

    assert bodies(queue.ready) == [b"1", b"2", b"3"]


def test_get_takes_the_head_and_keeps_it_unacked(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2")

    entry = queue.get(no_ack=False)

    assert entry is not None
    assert entry.message.body == b"1"
    assert (bodies(queue.ready), bodies(queue.unacked.values())) == ([b"2"], [b"1"])


def test_get_without_acknowledgement_keeps_nothing(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1")

    queue.get(no_ack=True)

    assert not queue.unacked
    assert not queue.ready


def test_get_finds_nothing_in_an_empty_queue(world: World) -> None:
    assert world.queue().get(no_ack=False) is None


def test_a_new_consumer_takes_the_backlog(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2")

    consumer = consume(queue)

    assert inbox(consumer).bodies == [b"1", b"2"]
    assert consumer.unacked_count == 2


def test_a_new_consumer_takes_no_more_of_the_backlog_than_its_prefetch(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2", b"3", b"4", b"5")

    first = consume(queue, prefetch_count=2)
    second = consume(queue, prefetch_count=2)

    assert inbox(first).bodies == [b"1", b"2"]
    assert inbox(second).bodies == [b"3", b"4"]
    assert bodies(queue.ready) == [b"5"]


def test_an_acknowledged_message_makes_room_for_the_next(world: World) -> None:
    queue = world.queue()
    consumer = consume(queue, prefetch_count=1)
    world.fill(queue, b"1", b"2")

    queue.acknowledge(inbox(consumer)[0], consumer)

    assert inbox(consumer).bodies == [b"1", b"2"]
    assert consumer.unacked_count == 1
    assert len(queue.unacked) == 1


def test_automatic_acknowledgement_leaves_nothing_unacked_and_ignores_prefetch(world: World) -> None:
    queue = world.queue()
    consumer = consume(queue, no_ack=True, prefetch_count=1)

    world.fill(queue, b"1", b"2", b"3")

    assert inbox(consumer).bodies == [b"1", b"2", b"3"]
    assert not queue.unacked


def test_settling_a_delivery_twice_fails_an_assertion(world: World) -> None:
    queue = world.queue()
    consumer = consume(queue)
    world.fill(queue, b"1")
    entry = inbox(consumer)[0]
    queue.acknowledge(entry, consumer)

    with pytest.raises(AssertionError, match="settled twice"):
        queue.acknowledge(entry, consumer)


def test_a_requeued_message_returns_to_its_place(world: World) -> None:
    queue = world.queue()
    world.fill(queue, *(b"%d" % number for number in range(1, 7)))
    first, second, *_ = take(queue, 4)

    give_back(queue, second, first)

    assert bodies(queue.ready) == [b"1", b"2", b"5", b"6"]


def test_a_requeued_message_returns_between_others_that_were_requeued(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2", b"3", b"4")
    first, second, third = take(queue, 3)
    give_back(queue, third, first)

    give_back(queue, second)

    assert bodies(queue.ready) == [b"1", b"2", b"3", b"4"]


def test_a_requeued_message_is_redelivered_and_a_new_one_is_not(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2")
    give_back(queue, *take(queue))

    again, new = take(queue, 2)

    assert (again.redelivered, new.redelivered) == (True, False)


def test_requeued_messages_of_several_consumers_alternate_between_them(world: World) -> None:
    queue = world.queue()
    first, second = consume(queue, prefetch_count=1), consume(queue, prefetch_count=1)
    world.fill(queue, b"1")
    entry = inbox(first)[0]

    queue.requeue([(entry, first)], "nacked", is_failure=False)
    queue.requeue([(entry, second)], "nacked", is_failure=False)

    assert (inbox(first).bodies, inbox(second).bodies) == ([b"1", b"1"], [b"1"])


def test_a_discarded_message_without_a_dead_letter_exchange_is_gone(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1")

    discard(queue, *take(queue))

    assert not queue.unacked
    assert [event.reason for event in world.events("dropped")] == ["rejected"]


def test_equal_consumers_take_turns(world: World) -> None:
    queue = world.queue()
    consumers = [consume(queue) for _ in range(3)]

    world.fill(queue, *(b"%d" % number for number in range(9)))

    assert [inbox(consumer).bodies for consumer in consumers] == [
        [b"0", b"3", b"6"],
        [b"1", b"4", b"7"],
        [b"2", b"5", b"8"],
    ]


def test_a_higher_priority_is_served_until_it_is_full(world: World) -> None:
    queue = world.queue()
    low = consume(queue)
    high = consume(queue, priority=5, prefetch_count=2)

    world.fill(queue, b"1", b"2", b"3")
    queue.acknowledge(inbox(high)[0], high)
    world.fill(queue, b"4")

    assert inbox(high).bodies == [b"1", b"2", b"4"]
    assert inbox(low).bodies == [b"3"]


def test_a_negative_priority_comes_after_no_priority(world: World) -> None:
    queue = world.queue()
    low, plain = consume(queue, priority=-1), consume(queue)

    world.fill(queue, b"1", b"2")

    assert (inbox(plain).bodies, inbox(low).bodies) == ([b"1", b"2"], [])


def test_a_cancelled_consumer_gets_nothing_more_and_keeps_what_it_holds(world: World) -> None:
    queue = world.queue()
    consumer = consume(queue)
    world.fill(queue, b"1")

    queue.remove_consumer(consumer)
    world.fill(queue, b"2")

    assert inbox(consumer).bodies == [b"1"]
    assert (bodies(queue.unacked.values()), bodies(queue.ready)) == ([b"1"], [b"2"])


def test_a_delivery_of_a_cancelled_consumer_can_still_be_acknowledged(world: World) -> None:
    queue = world.queue()
    consumer = consume(queue, prefetch_count=1)
    world.fill(queue, b"1", b"2")
    queue.remove_consumer(consumer)

    queue.acknowledge(inbox(consumer)[0], consumer)

    assert not queue.unacked
    assert inbox(consumer).bodies == [b"1"]


def test_messages_requeued_by_several_channels_return_in_order_of_arrival(world: World) -> None:
    queue = world.queue()
    first, second = consume(queue, prefetch_count=2), consume(queue, prefetch_count=2)
    world.fill(queue, b"1", b"2", b"3", b"4", b"5")
    for consumer in (first, second):
        queue.remove_consumer(consumer)

    for consumer in (second, first):
        returns = [(entry, consumer) for entry in inbox(consumer)]
        queue.requeue(returns, "channel_closed", is_failure=True)

    assert bodies(queue.ready) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_purge_drops_ready_messages_only(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2", b"3")
    take(queue)

    count = queue.purge()

    assert count == 2
    assert bodies(queue.unacked.values()) == [b"1"]
    assert [event.reason for event in world.events("purged")] == ["purged", "purged"]


def test_a_consumer_of_a_deleted_queue_is_notified_after_the_deletion(world: World) -> None:
    queue = world.queue()
    consumer = consume(queue)

    queue.delete()
    told_at_once = list(inbox(consumer).cancellations)
    world.node.run_work()

    assert (told_at_once, inbox(consumer).cancellations) == ([], ["queue deleted"])


def test_settling_a_delivery_of_a_deleted_queue_does_nothing(world: World) -> None:
    queue = world.queue(dead_letter_exchange="amq.fanout")
    grave = world.queue("grave")
    world.bind("amq.fanout", "grave")
    world.fill(queue, b"1", b"2", b"3")
    first, second, third = take(queue, 3)
    queue.delete()

    queue.acknowledge(first, None)
    give_back(queue, second)
    discard(queue, third)

    assert not queue.ready
    assert not grave.ready


def test_deleting_counts_ready_messages_only(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2", b"3")
    take(queue)

    assert queue.delete() == 2


def test_every_message_of_a_deleted_queue_is_traced_as_purged(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2")
    take(queue)

    queue.delete()

    ends = [event.kind for event in world.events("purged", "queue_delete")]
    assert ends == ["purged", "purged", "queue_delete"]
    assert {event.reason for event in world.events("purged")} == {"queue_deleted"}


def test_an_exclusive_consumer_keeps_others_out(world: World) -> None:
    queue = world.queue()
    consume(queue, is_exclusive=True)

    with pytest.raises(AccessRefused, match="queue 'q' in vhost '/' in exclusive use"):
        consume(queue)


def test_an_exclusive_consumer_is_refused_if_the_queue_has_others(world: World) -> None:
    queue = world.queue()
    consume(queue)

    with pytest.raises(AccessRefused, match="in exclusive use"):
        consume(queue, is_exclusive=True)


def test_exclusive_use_ends_with_its_consumer(world: World) -> None:
    queue = world.queue()
    queue.remove_consumer(consume(queue, is_exclusive=True))

    newcomer = consume(queue)

    assert queue.consumers == [newcomer]


def test_get_works_on_a_queue_with_an_exclusive_consumer(world: World) -> None:
    queue = world.queue()
    consume(queue, is_exclusive=True, prefetch_count=1)
    world.fill(queue, b"1", b"2")

    assert bodies(take(queue)) == [b"2"]


def test_an_auto_delete_queue_is_deleted_with_its_last_consumer(world: World) -> None:
    queue = world.queue(auto_delete=True)
    first, second = consume(queue), consume(queue)

    queue.remove_consumer(first)
    is_there_with_one_left = "q" in world.vhost.queues
    queue.remove_consumer(second)

    assert is_there_with_one_left
    assert "q" not in world.vhost.queues
    assert world.events("queue_delete")[0].reason == "auto_delete"


def test_an_auto_delete_queue_without_consumers_stays(world: World) -> None:
    queue = world.queue(auto_delete=True)
    world.fill(queue, b"1")

    take(queue)

    assert world.vhost.queues["q"] is queue


def test_an_exclusive_queue_is_locked_for_others(world: World) -> None:
    owner, stranger = Peer(1), Peer(2)
    world.vhost.declare_queue("mine", exclusive=True, connection=owner)

    with pytest.raises(ResourceLocked, match="cannot obtain exclusive access to locked queue 'mine' in vhost '/'"):
        world.vhost.queue("mine", stranger)


def test_the_test_itself_may_inspect_an_exclusive_queue(world: World) -> None:
    queue = world.vhost.declare_queue("mine", exclusive=True, connection=Peer(1))

    assert world.vhost.queue("mine") is queue


def test_exclusive_queues_are_deleted_with_their_connection(world: World) -> None:
    owner = Peer(1)
    world.vhost.declare_queue("mine", exclusive=True, connection=owner)
    world.queue("ours")

    world.vhost.connection_ended(owner)

    assert list(world.vhost.queues) == ["ours"]
    assert world.events("queue_delete")[0].reason == "exclusive"


def test_the_first_of_single_active_consumers_gets_everything(world: World) -> None:
    queue = world.queue(single_active_consumer=True)
    first, second = consume(queue), consume(queue, priority=9)

    world.fill(queue, b"1", b"2")

    assert (inbox(first).bodies, inbox(second).bodies) == ([b"1", b"2"], [])
    assert (first.is_active, second.is_active) == (True, False)
    assert queue.consumers == [first, second]


def test_the_highest_priority_follows_a_single_active_consumer_then_the_oldest(world: World) -> None:
    queue = world.queue(single_active_consumer=True)
    first, oldest, high, high_later = (consume(queue, priority=priority) for priority in (0, 0, 3, 3))

    queue.remove_consumer(first)
    after_first = queue.active_consumer
    queue.remove_consumer(high)
    after_second = queue.active_consumer
    queue.remove_consumer(high_later)

    assert (after_first, after_second, queue.active_consumer) == (high, high_later, oldest)


def test_the_next_single_active_consumer_gets_what_is_ready(world: World) -> None:
    queue = world.queue(single_active_consumer=True)
    first, second = consume(queue, prefetch_count=1), consume(queue)
    world.fill(queue, b"1", b"2")

    queue.remove_consumer(first)
    ready_first = inbox(second).bodies
    queue.requeue([(inbox(first)[0], first)], "channel_closed", is_failure=True)

    assert (ready_first, inbox(second).bodies) == ([b"2"], [b"2", b"1"])


def test_a_single_active_queue_takes_no_exclusive_consumer(world: World) -> None:
    with pytest.raises(AccessRefused):
        consume(world.queue(single_active_consumer=True), is_exclusive=True)


def test_messages_of_higher_priority_come_first(world: World) -> None:
    queue = world.queue(max_priority=5)
    for body, priority in ((b"none", None), (b"1", 1), (b"9", 9), (b"5", 5), (b"1b", 1)):
        world.fill(queue, body, **({} if priority is None else {"priority": priority}))

    assert bodies(take(queue, 5)) == [b"9", b"5", b"1", b"1b", b"none"]


def test_priorities_are_ignored_without_x_max_priority(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", priority=1)
    world.fill(queue, b"9", priority=9)

    assert bodies(queue.ready) == [b"1", b"9"]


def test_a_requeued_message_returns_to_its_place_within_its_priority(world: World) -> None:
    queue = world.queue(max_priority=5)
    world.fill(queue, b"low", priority=1)
    world.fill(queue, b"high 1", b"high 2", priority=5)
    (first,) = take(queue)

    give_back(queue, first)

    assert bodies(queue.ready) == [b"high 1", b"high 2", b"low"]


def test_every_copy_has_its_own_number_and_events(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1")
    (entry,) = take(queue)
    give_back(queue, entry)
    (entry,) = take(queue)
    discard(queue, entry)

    assert world.kinds_of(entry.copy) == ["enqueued", "requeued", "dropped"]


def test_one_message_in_two_queues_is_two_independent_copies(world: World) -> None:
    for name in ("a", "b"):
        world.bind("amq.fanout", world.queue(name).name)
    world.publish(b"1", exchange="amq.fanout")
    a, b = world.vhost.queues["a"], world.vhost.queues["b"]

    give_back(a, *take(a))

    (of_a,), (of_b,) = a.ready, b.ready
    assert of_a.message.is_same(of_b.message)
    assert of_a.copy != of_b.copy
    assert (of_a.redelivered, of_b.redelivered) == (True, False)


def test_a_consumer_without_room_is_not_asked_again_until_it_has_some(world: World) -> None:
    queue = world.queue()
    busy = consume(queue, Inbox(), prefetch_count=1)
    world.fill(queue, b"1", b"2", b"3")

    assert not busy.is_in_ring
    assert inbox(busy).bodies == [b"1"]
