"""Faults on the bytes of a connection, without sockets."""

from __future__ import annotations

import pytest
from pamqp.commands import Basic, Queue

from leveret.faults.plan import Treatment, treat
from tests.faults.world import FaultyServer
from tests.protocol.peer import Peer, declare, names, octets, publish_octets, split

DECLARED = octets(1, Queue.DeclareOk("new", 0, 0))


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture
def peer(server: FaultyServer) -> Peer:
    return server.peer()


def outlast_heartbeats(server: FaultyServer) -> None:
    """Let three intervals of 10 s pass. A tick of a heartbeat plans the next one."""
    for _ in range(6):
        server.elapse(5)


def has_new(server: FaultyServer) -> bool:
    return "new" in server.node.vhosts["/"].queues


@pytest.mark.parametrize(
    ("direction", "is_heard", "answers"),
    [("both", False, []), ("to_client", True, []), ("to_broker", False, [])],
)
def test_a_blackhole_lets_no_bytes_through_in_its_directions_until_it_ends(server, peer, direction, is_heard, answers):
    rule = server.faults.blackhole(direction)

    assert (peer.told(1, declare("new")), has_new(server)) == (answers, is_heard)
    rule.remove()
    assert (names(peer.read()), has_new(server)) == (["Queue.DeclareOk"], True)


def test_a_blackhole_outlasts_every_heartbeat(server):
    peer = server.peer(heartbeat_s=10)
    rule = server.faults.blackhole()

    server.elapse(1000)

    assert (peer.read_octets(), peer.connection.is_reset) == (b"", False)
    rule.remove()
    server.elapse(10)
    assert peer.read_octets() != b""
    outlast_heartbeats(server)
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


def read_all(peer):
    """Return what the peer reads, piece by piece, until no more comes."""
    pieces = [peer.read_octets()]
    while peer.connection.is_dirty:
        pieces.append(peer.read_octets())
    return [piece for piece in pieces if piece]


def test_removing_one_of_two_blackholes_leaves_the_other_silent(server):
    peer = server.peer(heartbeat_s=10)
    first, second = server.faults.blackhole(), server.faults.blackhole("to_client")

    first.remove()
    server.elapse(1000)

    assert (peer.read_octets(), peer.connection.is_reset) == (b"", False)
    second.remove()
    outlast_heartbeats(server)
    assert peer.connection.is_reset


def test_the_end_of_an_alarm_does_not_end_the_silence_of_a_blackhole(server):
    peer = server.peer(heartbeat_s=10)
    server.node.set_alarm("memory")
    peer.publish(1, b"blocks")
    server.faults.blackhole()

    server.node.clear_alarm("memory")
    server.elapse(1000)

    assert not peer.connection.is_reset


def test_the_end_of_a_blackhole_does_not_end_the_patience_with_a_blocked_publisher(server):
    peer = server.peer(heartbeat_s=10)
    server.node.set_alarm("memory")
    peer.publish(1, b"blocks")

    server.faults.blackhole().remove()
    server.elapse(1000)

    assert not peer.connection.is_reset


@pytest.mark.parametrize("is_slicer_first", [True, False])
def test_a_stall_holds_what_a_slicer_cuts_whichever_came_first(server, peer, is_slicer_first):
    add = [lambda: server.faults.slicer(1), lambda: server.faults.stall(1)]
    for one in add if is_slicer_first else reversed(add):
        one()

    peer.send(1, declare("new"))

    assert not has_new(server)
    server.elapse(1)
    assert has_new(server)
    assert read_all(peer) == [DECLARED[at : at + 1] for at in range(len(DECLARED))]


def test_low_bandwidth_keeps_its_rate_when_a_slicer_makes_the_pieces_small(server, peer):
    server.faults.slicer(1, direction="to_client")
    server.faults.bandwidth(2, direction="to_client")
    peer.send(1, declare("new"))

    received = read_all(peer)
    for _ in range(4):
        server.elapse(0.5)
        received += read_all(peer)

    assert b"".join(received) == DECLARED[:5]


def test_a_stall_that_begins_between_two_slices_holds_the_rest(server, peer):
    server.faults.slicer(1, direction="to_broker")
    rule = server.faults.stall(on="queue.declare", direction="to_broker")

    peer.send(1, declare("new"), declare("later"))

    assert sorted(server.node.vhosts["/"].queues) == ["new"]
    rule.remove()
    assert sorted(server.node.vhosts["/"].queues) == ["later", "new"]


def test_a_rule_that_is_removed_while_the_broker_handles_a_slice_lets_the_rest_through_in_order(server, peer):
    rule = server.faults.slicer(3, direction="to_broker")
    removing = Treatment("a test", lambda occasion: rule.remove() if occasion.on == "queue.declare" else False)
    treat(server.faults, removing)

    peer.send(1, *(declare(str(number)) for number in range(5)))

    assert list(server.node.vhosts["/"].queues) == ["0", "1", "2", "3", "4"]
    assert peer.connection.byte_filter is None


def test_a_half_close_sends_what_a_stall_holds_before_the_end_of_the_stream(server, peer):
    stall = server.faults.stall(direction="to_client")
    peer.send(1, declare("before"))
    peer.read_octets()
    half_close = server.faults.half_close()
    peer.send(1, declare("new"))
    half_close.remove()

    assert (peer.read_octets(), peer.connection.is_half_closed) == (b"", False)
    stall.remove()

    assert (names(peer.read()), peer.connection.is_half_closed) == (["Queue.DeclareOk"], True)
    assert (read_all(peer), has_new(server)) == ([], True)


def test_a_second_half_close_sends_nothing_more(server, peer):
    with server.faults.stall(direction="to_client"):
        peer.send(1, declare("before"))
        peer.read_octets()
        server.faults.half_close()
        peer.send(1, declare("new"))
        peer.read_octets()
        server.faults.half_close()

    assert names(peer.read()) == ["Queue.DeclareOk"]


def test_a_limit_counts_only_the_bytes_that_other_faults_let_through(server, peer):
    server.faults.limit_data(6)
    rule = server.faults.stall(direction="to_client")

    peer.send(1, declare("new"))

    assert (peer.read_octets(), peer.connection.is_reset) == (b"", False)
    rule.remove()
    assert (peer.read_octets(), peer.connection.is_reset) == (DECLARED[:6], True)


def test_a_limit_cuts_between_the_pieces_of_a_slicer(server, peer):
    server.faults.slicer(4)
    server.faults.limit_data(6)

    peer.send(1, declare("new"))

    assert read_all(peer)[:2] == [DECLARED[:4], DECLARED[4:6]]
    assert peer.connection.is_reset


@pytest.mark.parametrize("is_corrupt_first", [True, False])
def test_the_wrong_byte_counts_from_the_first_byte_that_is_still_held(server, peer, is_corrupt_first):
    if is_corrupt_first:
        server.faults.corrupt(3)
    rule = server.faults.stall(direction="to_client")
    server.faults.slicer(2)
    peer.send(1, declare("new"))
    peer.read_octets()
    if not is_corrupt_first:
        server.faults.corrupt(3)

    rule.remove()

    assert b"".join(read_all(peer)) == DECLARED[:2] + bytes([DECLARED[2] ^ 0xFF]) + DECLARED[3:]


@pytest.mark.parametrize("add", ["bandwidth", "stall"])
def test_a_fault_that_is_removed_leaves_no_deadline(server, peer, add):
    rule = getattr(server.faults, add)(3600)
    peer.send(1, declare("new"))
    peer.read_octets()

    rule.remove()

    assert server.node.next_deadline() is None


def test_bytes_that_are_held_when_the_socket_is_lost_reach_neither_side_later(server, peer):
    server.faults.stall(10)
    server.faults.bandwidth(1)
    peer.send(1, declare("new"))

    peer.connection.connection_lost()
    server.elapse(100)

    assert (peer.read_octets(), has_new(server)) == (b"", False)
    assert server.node.next_deadline() is None


def test_a_connection_that_is_reset_receives_no_more_slices(server, peer):
    server.faults.slicer(3)
    server.faults.reset_peer(on="queue.declare", when="after")

    peer.send(1, declare("new"), declare("later"))

    assert list(server.node.vhosts["/"].queues) == ["new"]


def test_a_fault_forgets_connections_that_have_ended(server):
    rule = server.faults.slicer(on="accept")
    for _ in range(5):
        server.stranger().connection.connection_lost()

    assert len(rule.fault._effects) == 1


def test_two_events_of_one_step_put_one_effect_on_a_connection(server, peer):
    peer.send(1, declare("new"))
    peer.send_octets(2 * publish_octets(1, b"x", "new"))
    peer.send(1, Basic.Consume(queue="new"))
    peer.read()
    rule = server.faults.stall(on="acked")

    peer.send(1, Basic.Ack(2, multiple=True), declare("later"))
    rule.remove()

    assert rule.fired == 2
    assert names(peer.read()) == ["Queue.DeclareOk"]


def test_a_rule_that_is_removed_before_it_could_act_on_an_event_does_not_act(server, peer):
    peer.send(1, declare("new"), Basic.Consume(queue="new"))
    peer.read()
    rule = server.faults.stall(on="published")
    treat(server.faults, Treatment("a test", lambda occasion: occasion.on == "basic.deliver" and rule.remove()))

    peer.publish(1, b"x", "new")

    assert names(peer.read()) == ["Basic.Deliver"]


def test_a_close_by_the_broker_waits_behind_what_a_stall_holds(server, peer):
    rule = server.faults.stall(direction="to_client")
    peer.send(1, declare("new"))
    server.faults.close_connection()

    assert peer.read_octets() == b""
    rule.remove()

    assert names(peer.read()) == ["Queue.DeclareOk", "Connection.Close"]


def test_a_reset_loses_what_a_stall_holds(server, peer):
    rule = server.faults.stall()
    peer.send(1, declare("new"))

    server.faults.reset_peer()
    rule.remove()

    assert (peer.connection.is_reset, has_new(server)) == (True, False)


def test_a_shutdown_writes_at_once_what_a_slicer_has_not_sent(server, peer):
    server.faults.slicer(1)
    peer.send(1, declare("new"))

    server.node.restart()

    assert names(split(peer.read_octets())) == ["Queue.DeclareOk", "Connection.Close"]
