"""Faults on messages and on the whole broker, without sockets."""

from __future__ import annotations

import pytest
from pamqp import commands
from pamqp.commands import Basic

from tests.faults.world import FaultyServer
from tests.protocol.peer import Peer, contents, declare, methods, names, select, the


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture
def peer(server: FaultyServer) -> Peer:
    peer = server.peer()
    peer.call(1, declare("q"))
    return peer


def consume(prefetch_count: int = 0) -> list[Basic.Qos | Basic.Consume]:
    return [Basic.Qos(prefetch_count=prefetch_count), Basic.Consume(queue="q", consumer_tag="c")]


def publish(peer: Peer, *bodies: bytes, **properties: object) -> None:
    for body in bodies:
        peer.publish(1, body, **properties)


def queue(server: FaultyServer, name: str = "q"):
    return server.node.vhosts["/"].queues[name]


def bodies(server: FaultyServer, name: str = "q") -> list[bytes]:
    return [entry.message.body for entry in queue(server, name).ready]


def test_a_lost_publish_is_confirmed_but_not_enqueued(server, peer):
    peer.call(1, select())
    server.faults.drop(body=b"2")

    publish(peer, b"1", b"2", b"3")

    assert [item.delivery_tag for item in methods(peer.read(), Basic.Ack)] == [1, 2, 3]
    assert bodies(server) == [b"1", b"3"]
    (dropped,) = server.events("dropped")
    assert (dropped.message.body, dropped.reason) == (b"2", "fault")


def test_a_lost_delivery_is_held_until_its_consumer_goes(server, peer):
    server.faults.drop("basic.deliver", body=b"1")
    peer.call(1, *consume())

    publish(peer, b"1", b"2")

    assert contents(peer.read()) == [b"2"]
    peer.connection.connection_lost()
    assert bodies(server) == [b"1", b"2"]


def test_a_lost_ack_leaves_the_message_unacked(server, peer):
    publish(peer, b"1", b"2")
    peer.call(1, *consume())
    server.faults.drop("basic.ack", body=b"1")

    peer.send(1, Basic.Ack(1), Basic.Ack(2))

    assert [entry.message.body for entry in queue(server).unacked.values()] == [b"1"]


@pytest.mark.parametrize("arguments", [{}, {"queue_type": "quorum"}, {"max_priority": 3}])
def test_a_duplicated_delivery_needs_an_ack_for_each_copy(server, peer, arguments):
    peer.call(1, declare("kind", **arguments))
    rule = server.faults.duplicate(body=b"1")
    publish(peer, b"1", b"2", key="kind")

    received = peer.call(1, Basic.Qos(prefetch_count=1), Basic.Consume(queue="kind", consumer_tag="c"))
    for tag in (1, 2):
        received += peer.call(1, Basic.Ack(tag))

    flags = [item.redelivered for item in methods(received, Basic.Deliver)]
    assert (contents(received), flags) == ([b"1", b"1", b"2"], [False, False, False])
    peer.send(1, Basic.Ack(3))
    assert len(queue(server, "kind").unacked) == len(queue(server, "kind").ready) == 0
    assert rule.fired == 1


def test_a_second_delivery_has_the_redelivered_flag(server, peer):
    server.faults.redeliver(times=1)
    peer.call(1, *consume())

    publish(peer, b"1", b"2")

    received = peer.read()
    flags = [(item.delivery_tag, item.redelivered) for item in methods(received, Basic.Deliver)]
    assert (contents(received), flags) == ([b"1", b"1", b"2"], [(1, False), (2, True), (3, False)])


def test_deliveries_are_reordered(server, peer):
    server.faults.reorder(4)
    peer.call(1, *consume())

    publish(peer, b"1", b"2", b"3", b"4")

    received = peer.read()
    assert sorted(contents(received)) == [b"1", b"2", b"3", b"4"] != contents(received)
    assert [item.delivery_tag for item in methods(received, Basic.Deliver)] == [1, 2, 3, 4]


def test_the_seed_decides_the_order_of_reordered_deliveries():
    assert len({order_after_reorder(seed) for seed in range(10)}) > 2


def order_after_reorder(seed: int) -> tuple[bytes, ...]:
    server = FaultyServer(seed=seed)
    peer = server.peer()
    peer.call(1, declare("q"))
    server.faults.reorder(4)
    peer.call(1, *consume())
    publish(peer, b"1", b"2", b"3", b"4")
    return tuple(contents(peer.read()))


def test_held_deliveries_are_sent_when_the_window_does_not_fill_in_time(server, peer):
    server.faults.reorder(3, seconds=1)
    peer.call(1, *consume(prefetch_count=1))

    publish(peer, b"1", b"2")
    early = contents(peer.read())
    server.elapse(1)

    assert (early, contents(peer.read())) == ([], [b"1"])


def test_held_deliveries_are_requeued_when_their_consumer_goes(server, peer):
    server.faults.reorder(3, seconds=1)
    peer.call(1, *consume())
    publish(peer, b"1", b"2")

    peer.connection.connection_lost()
    server.elapse(1)

    assert (bodies(server), queue(server).unacked) == ([b"1", b"2"], {})


def test_a_message_expires_as_soon_as_it_is_enqueued(server, peer):
    peer.call(1, declare("dying", dead_letter_exchange="", dead_letter_routing_key="q"))
    server.faults.expire(queue="dying", body=b"2")

    publish(peer, b"1", b"2", b"3", key="dying")

    assert (bodies(server, "dying"), bodies(server)) == ([b"1", b"3"], [b"2"])
    assert [event.reason for event in server.events("dead_lettered")] == ["expired"]


@pytest.mark.parametrize("on", ["basic.publish", "enqueued", "basic.qos", "basic.deliver"])
def test_the_broker_restarts_in_the_middle_of_any_step(server, peer, on):
    peer.publish(1, b"kept", delivery_mode=2)
    rule = server.faults.restart(on=on)

    peer.send(1, *consume())
    publish(peer, b"new", delivery_mode=2)

    closed = the(peer.read(), commands.Connection.Close)
    assert closed.reply_text == "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    assert (rule.fired, server.node.internal_errors, server.node.connections) == (1, [], {})
    assert b"kept" in bodies(server)


def test_the_broker_restarts_at_once_or_at_the_given_time(server, peer):
    server.faults.restart()
    assert names(peer.read()) == ["Connection.Close"]

    other = server.peer()
    server.faults.restart(at=60)
    server.elapse(59)
    assert names(other.read()) == []
    server.elapse(1)
    assert names(other.read()) == ["Connection.Close"]
