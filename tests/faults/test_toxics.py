"""Faults on the bytes of a connection, without sockets."""

from __future__ import annotations

import pytest
from pamqp.commands import Queue

from tests.faults.world import FaultyServer
from tests.protocol.peer import Peer, declare, names, octets

DECLARED = octets(1, Queue.DeclareOk("new", 0, 0))


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture
def peer(server: FaultyServer) -> Peer:
    return server.peer()


def has_new(server: FaultyServer) -> bool:
    return "new" in server.node.vhosts["/"].queues


@pytest.mark.parametrize(
    ("direction", "is_heard", "answers"),
    [("both", False, []), ("to_client", True, []), ("to_broker", False, [])],
)
def test_a_blackhole_drops_bytes_in_its_directions(server, peer, direction, is_heard, answers):
    server.faults.blackhole(direction)

    assert (peer.told(1, declare("new")), has_new(server)) == (answers, is_heard)


def test_a_blackhole_outlasts_every_heartbeat(server):
    peer = server.peer(heartbeat_s=10)
    rule = server.faults.blackhole()

    server.elapse(1000)

    assert (peer.read_octets(), peer.connection.is_reset) == (b"", False)
    rule.remove()
    server.elapse(10)
    assert peer.read_octets() != b""
    server.elapse(30)
    assert peer.connection.is_reset


def test_a_blackhole_can_wait_for_an_event(server, peer):
    server.faults.blackhole(on="queue.declare", connection=1)

    assert peer.told(1, declare("new")) == []
    assert has_new(server)


def test_low_bandwidth_takes_time(server, peer):
    server.faults.bandwidth(10, direction="to_client")
    peer.send(1, declare("new"))

    received = []
    for _ in range(len(DECLARED)):
        received.append(peer.read_octets())
        server.elapse(0.1)

    assert received == [DECLARED[at : at + 1] for at in range(len(DECLARED))]


def test_low_bandwidth_to_the_broker_takes_time(server, peer):
    server.faults.bandwidth(100, direction="to_broker")

    peer.send(1, declare("new"))
    assert not has_new(server)
    server.elapse(10)

    assert has_new(server)
    assert names(peer.read()) == ["Queue.DeclareOk"]


def test_bytes_come_in_pieces(server, peer):
    server.faults.slicer(5)

    peer.send(1, declare("new"))
    pieces = []
    while peer.connection.is_dirty:
        pieces.append(peer.read_octets())

    assert [len(piece) for piece in pieces] == [5] * (len(DECLARED) // 5) + [len(DECLARED) % 5][: len(DECLARED) % 5]
    assert b"".join(pieces) == DECLARED


def test_a_stall_ends_by_itself_or_by_hand(server, peer):
    first = server.faults.stall(30)
    assert peer.told(1, declare("new")) == []
    server.elapse(30)
    assert names(peer.read()) == ["Queue.DeclareOk"]

    rule = server.faults.stall(direction="to_client")
    assert peer.told(1, declare("new")) == []
    rule.remove()
    assert names(peer.read()) == ["Queue.DeclareOk"]
    first.remove()
    assert peer.connection.byte_filter is None


def test_one_byte_is_inverted(server, peer):
    server.faults.corrupt(len(DECLARED))

    peer.send(1, declare("new"), declare("new"))

    received = peer.read_octets()
    assert received == DECLARED[:-1] + bytes([DECLARED[-1] ^ 0xFF]) + DECLARED


def test_the_broker_answers_a_corrupted_byte_as_any_syntax_error(server, peer):
    frame = octets(1, declare("new"))
    server.faults.corrupt(len(frame), direction="to_broker")

    peer.send_octets(frame)

    assert names(peer.read()) == ["Connection.Close"]
    assert not has_new(server)


def test_a_connection_is_cut_in_the_middle_of_a_frame(server, peer):
    server.faults.limit_data(6)

    peer.send(1, declare("new"))

    assert peer.read_octets() == DECLARED[:6]
    assert peer.connection.is_reset


def test_faults_of_bytes_apply_to_new_connections(server):
    server.faults.slicer(100, on="accept", direction="to_client")
    peer = server.stranger()

    peer.open()

    assert len(peer.read_octets()) == 100


def test_several_faults_affect_one_connection(server, peer):
    server.faults.slicer(7, direction="to_client")
    server.faults.stall(1)

    peer.send(1, declare("new"))
    assert peer.read_octets() == b""
    server.elapse(1)

    received = peer.read_octets()
    while peer.connection.is_dirty:
        received += peer.read_octets()
    assert received == DECLARED


def test_a_half_close_sends_pending_bytes_and_the_other_direction_goes_on(server, peer):
    peer.send(1, declare("before"))
    rule = server.faults.half_close()

    peer.send(1, declare("new"))

    assert names(peer.read()) == ["Queue.DeclareOk"]
    assert peer.connection.is_half_closed
    assert not peer.connection.is_reset
    assert has_new(server)
    rule.remove()
    assert peer.connection.is_half_closed
