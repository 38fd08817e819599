"""The node: time in order, work until none is left, restarts, limits and alarms."""

from __future__ import annotations

import random

import pytest

from leveret.core.compat import Compat
from leveret.core.model.errors import NotAllowed
from leveret.core.model.node import Node
from tests.model.world import MINUTE, SECOND, Peer, World, bodies, give_back, take


@pytest.fixture
def world() -> World:
    return World()


def test_each_timer_runs_at_its_own_instant(world: World) -> None:
    node, seen = world.node, []
    for deadline in (30, 10, 20):
        node.timers.add(deadline, lambda: seen.append(node.now))

    node.advance(100, 0)

    assert seen == [10, 20, 30]
    assert node.now == 100


def test_a_timer_set_by_a_timer_runs_in_the_same_advance_when_due(world: World) -> None:
    node, seen = world.node, []

    def again() -> None:
        seen.append(node.now)
        node.timers.add(node.now + 10, again)

    node.timers.add(10, again)
    node.advance(35, 0)

    assert seen == [10, 20, 30]
    assert node.next_deadline() == 40


def test_time_does_not_run_backwards(world: World) -> None:
    world.node.advance(100, 100)

    world.node.advance(50, 50)

    assert (world.node.now, world.node.wall_now) == (100, 100)


def test_the_two_clocks_are_independent(world: World) -> None:
    node, seen = world.node, []
    node.timers.add(10, lambda: seen.append("broker"))
    node.liveness.add(10, lambda: seen.append("wall"))

    node.advance(0, 10)
    by_wall = list(seen)
    node.advance(10, 10)

    assert (by_wall, seen) == (["wall"], ["wall", "broker"])


def test_work_that_a_timer_causes_is_done_before_the_next_timer(world: World) -> None:
    node, seen = world.node, []
    node.timers.add(10, lambda: node.work.append(lambda: seen.append("work")))
    node.timers.add(20, lambda: seen.append("second"))

    node.advance(20, 0)

    assert seen == ["work", "second"]


def test_a_timer_that_raises_leaves_the_others_for_the_next_advance(world: World) -> None:
    node, seen = world.node, []
    node.timers.add(10, lambda: 1 // 0)
    node.timers.add(20, lambda: seen.append(node.now))

    with pytest.raises(ZeroDivisionError):
        node.advance(30, 0)
    node.advance(30, 0)

    assert seen == [20]


def test_work_that_causes_work_is_done_to_the_end(world: World) -> None:
    seen: list[int] = []

    def one(number: int) -> None:
        seen.append(number)
        if number < 5000:
            world.node.work.append(lambda: one(number + 1))

    one(0)
    world.node.run_work()

    assert len(seen) == 5001
    assert not world.node.work


def test_the_same_seed_gives_the_same_names() -> None:
    names = []
    for seed in (1, 1, 2):
        node = Node(compat=Compat.for_version("4.3"), dice=random.Random(seed))
        names.append([node.new_name("amq.gen-") for _ in range(3)])

    assert names[0] == names[1] != names[2]


def test_a_restart_keeps_durable_queues_and_persistent_messages(world: World) -> None:
    queue = world.queue()
    for number, mode in enumerate((None, 1, 2, 3, 2)):
        world.fill(queue, b"%d" % number, **({} if mode is None else {"delivery_mode": mode}))

    world.node.restart()

    assert bodies(world.vhost.queues["q"].ready) == [b"2", b"4"]
    assert [event.reason for event in world.events("dropped")] == ["restart"] * 3


def test_a_restart_deletes_transient_queues_with_their_bindings(world: World) -> None:
    world.vhost.declare_queue("brief", durable=False)
    world.bind("amq.fanout", "brief")

    world.node.restart()

    assert "brief" not in world.vhost.queues
    assert not world.vhost.exchanges["amq.fanout"].bindings


def test_a_restart_keeps_transient_exchanges_since_version_4() -> None:
    kept = {}
    for version in ("4.3", "3.10"):
        world = World(version)
        world.vhost.declare_exchange("x", "fanout", durable=False)
        world.node.restart()
        kept[version] = "x" in world.vhost.exchanges

    assert kept == {"4.3": True, "3.10": False}


def test_a_message_delivered_before_a_restart_is_redelivered_after_it(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1", b"2", delivery_mode=2)
    give_back(queue, *take(queue))

    world.node.restart()

    assert [entry.redelivered for entry in queue.ready] == [True, False]


def test_a_restart_shuts_down_every_connection(world: World) -> None:
    peers = [Peer(number) for number in (1, 2)]
    world.node.connections = {peer.number: peer for peer in peers}

    world.node.restart()

    text = "shut down CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    assert [peer.notices for peer in peers] == [[text], [text]]


def test_time_to_live_goes_on_over_a_restart(world: World) -> None:
    queue = world.queue(message_ttl=1000)
    world.fill(queue, b"1", delivery_mode=2)

    world.node.restart()
    world.elapse(1000)

    assert not queue.ready


def test_deleting_a_vhost_shuts_down_its_connections_and_no_others(world: World) -> None:
    world.node.add_vhost("doomed")
    here, there = Peer(1), Peer(2, vhost_name="doomed")
    world.node.connections = {1: here, 2: there}

    world.node.delete_vhost("doomed")

    assert (here.notices, there.notices) == ([], ["shut down CONNECTION_FORCED - vhost 'doomed' is deleted"])
    assert list(world.node.vhosts) == ["/"]


def test_a_vhost_may_limit_its_connections(world: World) -> None:
    world.node.access.set_user("guest", "guest")
    world.vhost.limits["max-connections"] = 1
    world.node.refuse_beyond_limits("guest", "/")
    world.node.connections = {1: Peer(1)}

    with pytest.raises(NotAllowed) as caught:
        world.node.refuse_beyond_limits("guest", "/")

    text = "access to vhost '/' refused for user 'guest': connection limit (1) is reached"
    assert caught.value.explanation == text


def test_the_last_alarm_that_clears_unblocks(world: World) -> None:
    peer = Peer(1)
    world.node.connections = {1: peer}
    world.node.set_alarm("memory")
    world.node.set_alarm("disk")
    reason = world.node.alarm_reason()

    world.node.clear_alarm("disk")
    after_one = list(peer.notices)
    world.node.clear_alarm("memory")

    assert (reason, after_one, peer.notices) == ("low on disk & memory", [], ["unblocked"])


def test_clearing_an_alarm_that_is_not_on_has_no_effect(world: World) -> None:
    world.node.clear_alarm("memory")

    assert not world.node.alarms


def test_thirty_minutes_pass_deadline_by_deadline(world: World) -> None:
    world.queue("work", message_ttl=60_000, dead_letter_exchange="", dead_letter_routing_key="work 2")
    world.queue("work 2", message_ttl=120_000, dead_letter_exchange="", dead_letter_routing_key="grave")
    world.queue("grave")
    world.publish(b"1", "work")

    world.node.advance(30 * MINUTE, 0)

    assert [event.at // SECOND for event in world.events("enqueued")] == [0, 60, 180]
