"""Alarms that block publishers, and deliveries that consumers hold too long."""

from __future__ import annotations

import pytest
from pamqp import commands
from pamqp.commands import Basic, Channel

from tests.protocol.peer import Peer, Server, contents, declare, names, publish_octets, the


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def peer(server: Server) -> Peer:
    peer = server.peer()
    peer.send(1, declare())
    peer.read()
    return peer


def test_an_alarm_blocks_a_connection_when_it_publishes(server: Server, peer: Peer) -> None:
    server.node.set_alarm("memory")
    before = peer.read()

    peer.send_octets(publish_octets(1, b"12", chunk=1))

    assert before == []
    assert the(peer.read(), commands.Connection.Blocked).reason == "low on memory"
    assert peer.connection.is_reading_paused


@pytest.mark.parametrize("message_id", ["1", "2"], ids=["repeated", "with properties of its own"])
def test_an_alarm_blocks_a_connection_that_repeats_its_publishes(server: Server, peer: Peer, message_id: str) -> None:
    peer.send_octets(publish_octets(1, b"1", message_id="1") * 3)
    server.node.set_alarm("memory")

    peer.send_octets(publish_octets(1, b"2", message_id=message_id))

    assert names(peer.read()) == ["Connection.Blocked"]
    assert peer.connection.is_reading_paused


def test_a_publish_in_progress_is_handled_when_the_alarm_clears(server: Server, peer: Peer) -> None:
    server.node.set_alarm("disk")
    peer.send_octets(publish_octets(1, b"12", chunk=1))
    peer.read()

    server.node.clear_alarm("disk")

    assert names(peer.read()) == ["Connection.Unblocked"]
    assert contents(peer.call(1, Basic.Get(queue="q"))) == [b"12"]


def test_a_connection_is_unblocked_by_the_last_alarm_that_clears(server: Server, peer: Peer) -> None:
    server.node.set_alarm("memory")
    server.node.set_alarm("disk")
    peer.send_octets(publish_octets(1, b"12", chunk=1))
    blocked = the(peer.read(), commands.Connection.Blocked)

    server.node.clear_alarm("memory")
    after_one = peer.read()
    server.node.clear_alarm("disk")

    assert blocked.reason == "low on disk & memory"
    assert (after_one, names(peer.read())) == ([], ["Connection.Unblocked"])


def test_a_client_without_connection_blocked_is_blocked_without_notice(server: Server) -> None:
    peer = server.peer(capabilities={})
    server.node.set_alarm("memory")

    peer.send_octets(publish_octets(1, b"12", chunk=1))

    assert peer.read() == []
    assert peer.connection.is_reading_paused


def test_consumers_go_on_under_an_alarm(server: Server, peer: Peer) -> None:
    peer.publish(1, b"1")
    server.node.set_alarm("memory")

    assert contents(peer.call(1, Basic.Get(queue="q"))) == [b"1"]


def test_a_blocked_connection_is_not_dropped_for_its_silence(server: Server) -> None:
    peer = server.peer(heartbeat_s=5)
    server.node.set_alarm("memory")
    peer.send_octets(publish_octets(1, b"12", chunk=1))

    for _ in range(20):
        server.elapse(5)

    assert not peer.connection.is_reset


def test_a_quorum_delivery_held_too_long_is_requeued(server: Server) -> None:
    peer = server.peer(channels=(1, 2))
    peer.send(1, declare("slow", queue_type="quorum", consumer_timeout=60_000), Basic.Consume(queue="slow"))
    peer.publish(2, b"1", "slow")
    peer.read()

    server.elapse(60)

    assert names(peer.read()) == ["Basic.Cancel"]
    assert contents(peer.call(2, Basic.Get(queue="slow"))) == [b"1"]


def test_a_consumer_goes_on_after_it_acknowledged_what_it_held_too_long(server: Server) -> None:
    peer = server.peer(channels=(1, 2))
    peer.send(1, declare("slow", queue_type="quorum", consumer_timeout=60_000), Basic.Consume(queue="slow"))
    peer.publish(2, b"1", "slow")
    server.elapse(60)
    peer.read()

    peer.publish(2, b"2", "slow")
    assert peer.read() == []
    assert peer.told(1, Basic.Ack(1)).count("Basic.Deliver") == 2


def test_a_client_without_cancel_notify_loses_its_channel_on_timeout(server: Server) -> None:
    peer = server.peer(capabilities={})
    peer.send(1, declare("slow", queue_type="quorum", consumer_timeout=60_000), Basic.Consume(queue="slow"))
    peer.publish(1, b"1", "slow")
    peer.read()

    server.elapse(60)

    assert the(peer.read(), Channel.Close).reply_code == 406


def test_a_classic_queue_waits_for_ever(server: Server, peer: Peer) -> None:
    peer.publish(1, b"1")
    peer.send(1, Basic.Consume(queue="q"))
    peer.read()

    server.elapse(100_000)

    assert peer.read() == []
    assert len(peer.connection.channels[1].unacked) == 1
