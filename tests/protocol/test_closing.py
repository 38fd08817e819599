"""The end of a conversation, from either side, and what happens to the messages it held."""

from __future__ import annotations

import pytest
from pamqp import commands
from pamqp.commands import Basic, Channel, Queue

from leveret.core.protocol.state import State
from tests.protocol.peer import Peer, Server, contents, declare, methods, names, the


@pytest.fixture
def server() -> Server:
    return Server()


def close() -> commands.Connection.Close:
    return commands.Connection.Close(200, "bye", 0, 0)


def refused(server: Server, **options: object) -> Peer:
    """Return a peer whose connection the server has closed with an error."""
    peer = server.peer(**options)
    peer.send(0, commands.Connection.TuneOk(1, 8192, 0))
    peer.read()
    return peer


def test_a_clients_close_is_answered(server: Server) -> None:
    peer = server.peer()

    assert peer.told(0, close()) == ["Connection.CloseOk"]
    assert not server.node.connections


@pytest.mark.parametrize(("heartbeat_s", "limit_s"), [(0, 30), (60, 30), (8, 8)])
def test_a_client_that_does_not_close_its_socket_is_reset(server: Server, heartbeat_s: int, limit_s: int) -> None:
    peer = server.peer(heartbeat_s=heartbeat_s)
    peer.send(0, close())

    server.elapse(limit_s - 0.1)
    before = peer.connection.is_reset
    server.elapse(0.1)

    assert (before, peer.connection.is_reset) == (False, True)


def test_frames_after_a_clients_close_are_ignored(server: Server) -> None:
    peer = server.peer()
    peer.send(0, close())

    assert peer.told(1, declare()) == ["Connection.CloseOk"] or not server.node.vhosts["/"].queues


def test_exclusive_queues_are_gone_when_the_close_is_answered(server: Server) -> None:
    peer = server.peer()
    peer.send(1, declare("mine", exclusive=True))

    peer.send(0, close())

    assert "mine" not in server.node.vhosts["/"].queues


def test_a_refused_client_is_reset_once_it_answers(server: Server) -> None:
    peer = refused(server)
    before = peer.connection.is_reset

    peer.send(0, commands.Connection.CloseOk())

    assert (before, peer.connection.is_reset) == (False, True)


def test_a_refused_client_that_does_not_answer_is_reset_after_thirty_seconds(server: Server) -> None:
    peer = refused(server)

    server.elapse(29.9)
    before = peer.connection.is_reset
    server.elapse(0.1)

    assert (before, peer.connection.is_reset) == (False, True)


def test_closes_that_cross_are_both_answered(server: Server) -> None:
    peer = refused(server)

    assert peer.told(0, close()) == ["Connection.CloseOk"]


def test_a_refused_client_can_do_nothing_else(server: Server) -> None:
    peer = refused(server)

    assert peer.call(1, declare()) == []
    assert peer.call(0, commands.Connection.Open("/")) == [] or peer.connection.state is State.CLOSING
    assert not server.node.vhosts["/"].queues


def test_everything_a_lost_connection_held_comes_back_in_order(server: Server) -> None:
    lost, other = server.peer(channels=(1, 2)), server.peer()
    lost.send(1, declare(), Basic.Qos(prefetch_count=2), Basic.Consume(queue="q"))
    lost.send(2, Basic.Qos(prefetch_count=1), Basic.Consume(queue="q"))
    for number in range(5):
        lost.publish(1, b"%d" % number)

    lost.connection.connection_lost()

    received = [item for _ in range(5) for item in other.call(1, Basic.Get(queue="q", no_ack=True))]
    assert contents(received) == [b"0", b"1", b"2", b"3", b"4"]
    assert [item.redelivered for item in methods(received, Basic.GetOk)] == [True, True, True, False, False]


def test_losing_a_connection_twice_is_losing_it_once(server: Server) -> None:
    peer = server.peer()

    peer.connection.connection_lost()
    peer.connection.connection_lost()

    assert [event.reason for event in server.events("conn_close")] == ["connection lost"]


def test_no_consumer_of_a_closing_connection_becomes_active(server: Server) -> None:
    lost, other = server.peer(channels=(1, 2)), server.peer()
    lost.send(1, declare(single_active_consumer=True), Basic.Qos(prefetch_count=1))
    lost.send(1, Basic.Consume(queue="q", consumer_tag="a"), Basic.Consume(queue="q", consumer_tag="b"))
    lost.send(2, Basic.Qos(prefetch_count=1), Basic.Consume(queue="q", consumer_tag="c"))
    for number in range(3):
        lost.publish(1, b"%d" % number)

    lost.connection.connection_lost()

    received = [item for _ in range(3) for item in other.call(1, Basic.Get(queue="q", no_ack=True))]
    assert [item.redelivered for item in methods(received, Basic.GetOk)] == [True, False, False]


def test_no_consumer_of_a_closing_channel_becomes_active(server: Server) -> None:
    peer = server.peer(channels=(1, 2))
    peer.send(1, declare(single_active_consumer=True), Basic.Qos(prefetch_count=1))
    peer.send(1, Basic.Consume(queue="q", consumer_tag="a"), Basic.Consume(queue="q", consumer_tag="b"))
    peer.publish(2, b"1")
    peer.publish(2, b"2")

    peer.send(1, Channel.Close(200, "bye", 0, 0))

    received = [item for _ in range(2) for item in peer.call(2, Basic.Get(queue="q", no_ack=True))]
    assert [item.redelivered for item in methods(received, Basic.GetOk)] == [True, False]


def test_a_restart_closes_every_connection_without_waiting(server: Server) -> None:
    peer = server.peer()

    server.node.restart()

    told = the(peer.read(), commands.Connection.Close)
    assert (told.reply_code, told.reply_text) == (
        320,
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
    )
    assert peer.connection.is_reset


def test_a_deleted_vhost_closes_its_connections(server: Server) -> None:
    peer = server.peer()

    server.node.delete_vhost("/")

    assert the(peer.read(), commands.Connection.Close).reply_text == "CONNECTION_FORCED - vhost '/' is deleted"


def test_a_closed_connection_leaves_no_deadline_behind(server: Server) -> None:
    peer = server.peer(heartbeat_s=10)
    peer.send(1, declare(), Basic.Consume(queue="q"))

    peer.connection.connection_lost()
    server.node.vhosts["/"].queues["q"].delete()

    assert server.node.next_liveness_deadline() is None
    assert server.node.next_deadline() is None


def test_the_end_of_a_channel_is_traced_before_its_requeues(server: Server) -> None:
    peer = server.peer()
    peer.send(1, declare(), Basic.Consume(queue="q"))
    peer.publish(1, b"1")

    peer.send(1, Channel.Close(200, "bye", 0, 0))

    told = [(event.kind, event.get("reason")) for event in server.events("chan_close", "requeued")]
    assert told == [("chan_close", None), ("requeued", "channel_closed")]


def test_the_loss_of_a_connection_is_traced_before_its_requeues(server: Server) -> None:
    peer = server.peer()
    peer.send(1, declare(), Basic.Consume(queue="q"))
    peer.publish(1, b"1")

    peer.connection.connection_lost()

    told = [(event.kind, event.get("reason")) for event in server.events("conn_close", "chan_close", "requeued")]
    assert told == [("conn_close", "connection lost"), ("requeued", "channel_closed")]


def test_heartbeats_go_out_every_half_interval(server: Server) -> None:
    peer = server.peer(heartbeat_s=10)
    counts = []

    for seconds in (4.9, 0.1, 4.9, 0.1, 5, 5):
        server.elapse(seconds)
        counts.append(len(peer.read()))

    assert counts == [0, 1, 0, 1, 1, 1]


def test_no_heartbeat_is_sent_if_something_else_was(server: Server) -> None:
    peer = server.peer(heartbeat_s=10)
    server.elapse(5)
    peer.send(1, Queue.Declare(queue="q", durable=True))
    peer.read()

    server.elapse(5)

    assert peer.read() == []


def test_the_first_heartbeat_is_sent_in_any_case(server: Server) -> None:
    peer = server.peer(heartbeat_s=10)
    server.elapse(4)
    peer.send(1, Queue.Declare(queue="q", durable=True))
    peer.read()

    server.elapse(1)

    assert [item.name for _, item in peer.read()] == ["Heartbeat"]


def test_a_silent_client_is_reset_after_three_intervals(server: Server) -> None:
    peer = server.peer(heartbeat_s=10)

    for _ in range(299):
        server.elapse(0.1)
    before = peer.connection.is_reset
    server.elapse(0.2)

    assert (before, peer.connection.is_reset) == (False, True)


def test_a_client_that_falls_silent_is_reset_at_the_second_check_after(server: Server) -> None:
    peer = server.peer(heartbeat_s=10)
    for seconds in (5, 5, 2):
        server.elapse(seconds)
    peer.send_octets(b"\x08")

    for _ in range(279):
        server.elapse(0.1)
    before = peer.connection.is_reset
    server.elapse(0.2)

    assert (before, peer.connection.is_reset) == (False, True)


def test_every_byte_counts_as_a_heartbeat(server: Server) -> None:
    peer = server.peer(heartbeat_s=10)

    for _ in range(10):
        server.elapse(20)
        peer.send_octets(b"\x08")
        peer.send_octets(b"\x00\x00\x00\x00\x00\x00\xce")

    assert not peer.connection.is_reset


def test_a_heartbeat_of_zero_switches_both_directions_off(server: Server) -> None:
    peer = server.peer(heartbeat_s=0)

    server.elapse(1_000_000)

    assert names(peer.read()) == []
    assert not peer.connection.is_reset


def test_moving_the_brokers_clock_ends_no_connection(server: Server) -> None:
    peer = server.peer(heartbeat_s=10)

    server.node.advance(server.node.now + 3_600_000_000, server.node.wall_now)

    assert not peer.connection.is_reset
    assert peer.read() == []


@pytest.mark.parametrize("is_requeued", [True, False])
def test_a_nack_that_a_stream_refuses_gives_back_what_other_queues_wait_for(is_requeued: bool) -> None:
    server = Server("3.10")
    peer = server.peer()
    peer.send(1, declare("a-stream", queue_type="stream"), declare("b-classic"), Basic.Qos(prefetch_count=5))
    peer.send(1, Basic.Consume(queue="a-stream"), Basic.Consume(queue="b-classic"))
    peer.publish(1, b"kept", key="a-stream")
    peer.publish(1, b"returned", key="b-classic")

    peer.send(1, Basic.Nack(0, multiple=True, requeue=is_requeued))

    queues = server.node.vhosts["/"].queues
    assert peer.connection.state is State.CLOSING
    assert [(len(queue.ready), len(queue.unacked)) for queue in queues.values()] == [(1, 0), (1, 0)]
