"""Faults on single methods of a conversation, without sockets."""

from __future__ import annotations

import pytest
from pamqp import commands
from pamqp.commands import Basic, Channel, Confirm, Queue

from leveret.faults import CloseChannel, CloseConnection, Fault, NotAllowed, PreconditionFailed, ResetPeer
from tests.faults.world import FaultyServer
from tests.protocol.peer import PROTOCOL_HEADER, Peer, contents, declare, methods, names, select, start_ok, the


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture
def peer(server: FaultyServer) -> Peer:
    peer = server.peer()
    peer.call(1, declare("q"))
    return peer


def consume() -> Basic.Consume:
    return Basic.Consume(queue="q", consumer_tag="c")


def ready(server: FaultyServer, name: str = "q") -> list[tuple[bytes, bool]]:
    return [(entry.message.body, entry.redelivered) for entry in server.node.vhosts["/"].queues[name].ready]


def test_channel_is_closed_with_any_code_and_the_method_is_not_handled(server, peer):
    server.faults.close_channel(311, "no more of this", on="queue.declare")

    closed = the(peer.call(1, declare("new")), Channel.Close)

    assert (closed.reply_code, closed.reply_text) == (311, "CONTENT_TOO_LARGE - no more of this")
    assert (closed.class_id, closed.method_id) == (50, 10)
    assert "new" not in server.node.vhosts["/"].queues
    assert not peer.connection.is_reset


@pytest.mark.parametrize(
    ("refusal", "answer"), [(PreconditionFailed, Channel.Close), (NotAllowed, commands.Connection.Close)]
)
def test_a_fault_of_the_test_refuses_a_method_with_an_error_of_leveret_faults(server, peer, refusal, answer):
    class Refusal(Fault):
        def apply(self, occasion):
            raise refusal("not now")

    server.faults.add(on="queue.declare", do=Refusal())

    closed = the(peer.call(1, declare("new")), answer)

    assert (closed.reply_code, closed.reply_text) == (refusal.code, f"{refusal.name} - not now")
    assert (closed.class_id, closed.method_id) == (50, 10)


def test_connection_is_closed_with_any_code(server, peer):
    server.faults.close_connection(599, "odd", on="basic.qos")

    closed = the(peer.call(1, Basic.Qos()), commands.Connection.Close)

    assert (closed.reply_code, closed.reply_text) == (599, "CODE_599 - odd")


def test_connection_lost_on_an_ack_leaves_the_message_unacked(server, peer):
    server.faults.reset_peer(on="basic.ack")
    peer.publish(1, b"x")
    peer.call(1, consume())

    peer.send(1, Basic.Ack(1))

    assert peer.connection.is_reset
    assert ready(server) == [(b"x", True)]


def test_connection_lost_after_a_publish_loses_the_confirm_and_keeps_the_message(server, peer):
    peer.call(1, select())
    server.faults.reset_peer(on="basic.publish", when="after")

    peer.publish(1, b"x")

    assert peer.connection.is_reset
    assert peer.read() == []
    assert ready(server) == [(b"x", False)]


@pytest.mark.parametrize(("when", "told"), [("before", []), ("after", ["Basic.Deliver"])])
def test_connection_is_lost_around_a_delivery_and_the_message_comes_back(server, peer, when, told):
    server.faults.reset_peer(on="basic.deliver", when=when)
    peer.call(1, consume())

    peer.publish(1, b"x")

    assert names(peer.read()) == told
    assert peer.connection.is_reset
    assert ready(server) == [(b"x", True)]


def test_connection_is_lost_before_an_answer(server, peer):
    server.faults.reset_peer(on="queue.declare-ok")

    assert peer.told(1, declare("new")) == []
    assert peer.connection.is_reset
    assert "new" in server.node.vhosts["/"].queues


@pytest.mark.parametrize("fault", [CloseChannel(), CloseConnection(), ResetPeer()])
@pytest.mark.parametrize("on", ["delivered", "consume", "acked", "basic.deliver", "basic.consume-ok", "basic.qos-ok"])
def test_closing_at_any_point_causes_no_internal_error(server, peer, fault, on):
    rule = server.faults.add(on=on, do=fault, times=1)
    for number in range(3):
        peer.publish(1, b"%d" % number)

    peer.send(1, Basic.Qos(prefetch_count=2), consume())
    peer.send(1, Basic.Ack(1))
    peer.send(1, Basic.Ack(2))

    assert (rule.fired, server.node.internal_errors) == (1, [])
    peer.connection.connection_lost()
    assert server.node.vhosts["/"].queues["q"].unacked == {}


def test_without_on_open_connections_are_closed_at_once(server, peer):
    other = server.peer()

    rule = server.faults.reset_peer(connection=2)

    assert (other.connection.is_reset, peer.connection.is_reset) == (True, False)
    assert rule.fired == 1
    assert server.faults.close_channel(channel=1).fired == 1
    assert names(peer.read()) == ["Channel.Close"]


def test_socket_is_reset_at_accept(server):
    rule = server.faults.refuse_connections()

    stranger = server.stranger()

    assert stranger.connection.is_reset
    rule.remove()
    assert names(server.peer().call(1, Channel.Open())) != []


def test_login_fails_whatever_the_password(server):
    server.faults.refuse_connections("login", client="peer")
    stranger = server.stranger()

    stranger.send_octets(PROTOCOL_HEADER)
    stranger.send(0, start_ok(capabilities={"authentication_failure_close": True}))

    assert the(stranger.read(), commands.Connection.Close).reply_code == 403


def test_connection_is_closed_in_the_handshake(server):
    server.faults.refuse_connections("close", code=530, text="not today")
    stranger = server.stranger()

    stranger.open()

    closed = the(stranger.read(), commands.Connection.Close)
    assert (closed.reply_code, closed.reply_text) == (530, "NOT_ALLOWED - not today")


@pytest.mark.parametrize(
    ("answer", "frame"),
    [
        ("queue.declare-ok", declare("new")),
        ("basic.get-ok", Basic.Get(queue="q")),
        ("basic.consume-ok", consume()),
        ("confirm.select-ok", Confirm.Select()),
        ("channel.close-ok", Channel.Close(200, "", 0, 0)),
    ],
)
def test_a_withheld_reply_never_comes(server, peer, answer, frame):
    peer.publish(1, b"x")
    server.faults.withhold(answer)

    assert not [name for name in peer.told(1, frame) if name != "Basic.Deliver"]


def test_withhold_means_the_brokers_method_where_both_sides_send_it(server, peer):
    peer.call(1, select())
    rule = server.faults.withhold("basic.ack")

    peer.publish(1, b"x")
    peer.send(1, Basic.Get(queue="q"), Basic.Ack(1))

    assert rule.fired == 1
    assert names(peer.read()) == ["Basic.GetOk"]


def test_a_reply_is_delayed_by_the_brokers_clock(server, peer):
    server.faults.delay("queue.declare-ok", seconds=30)

    assert peer.told(1, declare("new")) == []
    server.elapse(29)
    assert peer.read() == []
    server.elapse(1)
    assert names(peer.read()) == ["Queue.DeclareOk"]


def test_a_delayed_method_is_not_overtaken_on_its_channel(server, peer):
    peer.call(2, Channel.Open())
    server.faults.delay("queue.declare", seconds=30, times=1)

    peer.send(1, declare("late"))
    peer.publish(1, b"x", key="late")
    peer.send(1, Queue.Purge(queue="q"))
    assert peer.told(2, declare("now")) == ["Queue.DeclareOk"]
    server.elapse(30)

    assert names(peer.read()) == ["Queue.DeclareOk", "Queue.PurgeOk"]
    assert ready(server, "late") == [(b"x", False)]


def test_a_delayed_method_that_is_refused_closes_its_channel(server, peer):
    server.faults.delay("queue.declare", seconds=1)

    peer.send(1, Queue.Declare(queue="nowhere", passive=True))
    server.elapse(1)

    assert the(peer.read(), Channel.Close).reply_code == 404


def test_a_delayed_delivery_is_overtaken_by_others(server, peer):
    server.faults.delay("basic.deliver", seconds=5, body=b"0")
    peer.call(1, consume())

    for number in range(3):
        peer.publish(1, b"%d" % number)
    early = contents(peer.read())
    server.elapse(5)

    assert (early, contents(peer.read())) == ([b"1", b"2"], [b"0"])


def test_a_delayed_delivery_is_requeued_when_its_consumer_has_gone(server, peer):
    server.faults.delay("basic.deliver", seconds=5)
    peer.call(1, consume())
    peer.publish(1, b"x")

    peer.connection.connection_lost()
    server.elapse(5)

    assert ready(server) == [(b"x", True)]


def test_a_consumer_is_cancelled_and_its_queue_stays(server, peer):
    peer.call(1, consume())

    rule = server.faults.cancel_consumers(queue="q")

    assert the(peer.read(), Basic.Cancel).consumer_tag == "c"
    assert server.node.vhosts["/"].queues["q"].consumers == []
    assert rule.fired == 1


def test_a_consumer_is_cancelled_on_its_ack(server, peer):
    server.faults.cancel_consumers(on="basic.ack")
    peer.call(1, consume())
    peer.publish(1, b"x")

    assert peer.told(1, Basic.Ack(1)) == ["Basic.Deliver", "Basic.Cancel"] or names(peer.read()) == []
    assert server.node.vhosts["/"].queues["q"].consumers == []


def test_publishers_are_blocked_until_the_rule_is_removed(server, peer):
    rule = server.faults.block_publishers()

    peer.publish(1, b"x")
    blocked = names(peer.read())
    rule.remove()

    assert (blocked, names(peer.read())) == (["Connection.Blocked"], ["Connection.Unblocked"])
    rule = server.faults.block_publishers("disk", on="basic.publish")
    peer.publish(1, b"y")
    rule.remove()
    assert server.node.alarms == {}


def test_a_nacked_publish_is_not_enqueued(server, peer):
    peer.call(1, select())
    server.faults.nack_publishes(after=2, times=1)

    for number in range(4):
        peer.publish(1, b"%d" % number)

    answers = [(item.name, item.delivery_tag) for _, item in peer.read()]
    assert answers == [("Basic.Ack", 1), ("Basic.Ack", 2), ("Basic.Nack", 3), ("Basic.Ack", 4)]
    assert ready(server) == [(b"0", False), (b"1", False), (b"3", False)]


def test_no_later_confirm_covers_one_that_is_withheld(server, peer):
    peer.call(1, select())
    server.faults.withhold_confirms(body=b"1")

    for number in range(4):
        peer.publish(1, b"%d" % number)

    confirms = methods(peer.read(), Basic.Ack)
    assert [(item.delivery_tag, item.multiple) for item in confirms] == [(1, False), (3, False), (4, False)]
    assert len(ready(server)) == 4


def test_a_late_confirm_covers_only_its_own_publish(server, peer):
    peer.call(1, select())
    server.faults.delay_confirms(seconds=60, times=2)

    for number in range(4):
        peer.publish(1, b"%d" % number)
    early = methods(peer.read(), Basic.Ack)
    server.elapse(60)
    late = methods(peer.read(), Basic.Ack)

    assert [(item.delivery_tag, item.multiple) for item in early + late] == [
        (3, False),
        (4, False),
        (1, False),
        (2, False),
    ]
    assert server.node.internal_errors == []
