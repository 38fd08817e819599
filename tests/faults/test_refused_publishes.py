"""The broker refuses an invalid publish as it does without a fault: no fault fires on it, and the report says why."""

from __future__ import annotations

import pytest
from pamqp.commands import Basic, Channel

from leveret.faults import Blackhole, CloseChannel, CloseConnection, Delay, Drop, Fault, NackPublish, ResetPeer
from tests.faults.world import FaultyServer
from tests.protocol.peer import Peer, declare, methods, select, the


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture
def peer(server: FaultyServer) -> Peer:
    peer = server.peer()
    peer.call(1, declare("q"), select())
    return peer


ON_A_PUBLISH = [
    NackPublish(),
    Drop(),
    ResetPeer(),
    ResetPeer("after"),
    CloseChannel(404, "closed by a fault"),
    CloseConnection(),
    Delay(1),
    Blackhole("to_client"),
]


@pytest.mark.parametrize("fault", ON_A_PUBLISH, ids=repr)
def test_no_fault_hides_that_an_exchange_is_missing(server: FaultyServer, peer: Peer, fault: Fault) -> None:
    rule = server.faults.add(on="basic.publish", do=fault)

    peer.publish(1, b"a", exchange="nowhere")

    closed = the(peer.read(), Channel.Close)
    assert (closed.reply_code, closed.reply_text) == (404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'")
    assert (rule.fired, rule.seen) == (0, 0)
    assert server.events("published", "fault") == []


@pytest.mark.parametrize("fault", [NackPublish(), Drop()], ids=repr)
@pytest.mark.parametrize("properties", [{"expiration": "soon"}, {"headers": {"CC": 1}}, {"user_id": "nobody"}])
def test_no_fault_hides_that_a_property_is_refused(
    server: FaultyServer, peer: Peer, fault: Fault, properties: dict
) -> None:
    server.faults.add(on="basic.publish", do=fault)

    peer.publish(1, b"a", **properties)

    assert the(peer.read(), Channel.Close).reply_code == 406
    assert server.events("published", "fault") == []


def test_no_fault_hides_that_a_message_is_too_large(server: FaultyServer, peer: Peer) -> None:
    server.node.max_message_size = 3
    server.faults.nack_publishes()

    peer.publish(1, b"four")

    assert the(peer.read(), Channel.Close).reply_code == 406


def test_a_refused_publish_does_not_count_as_a_match(server: FaultyServer, peer: Peer) -> None:
    rule = server.faults.nack_publishes(after=1, times=1)

    peer.publish(1, b"refused", exchange="nowhere")
    peer.read()
    peer.send(1, Channel.CloseOk(), Channel.Open(), select())
    peer.publish(1, b"passes")
    peer.publish(1, b"nacked")

    found = peer.read()
    assert [type(item).__name__ for item in methods(found, (Basic.Ack, Basic.Nack))] == ["Ack", "Nack"]
    assert (rule.seen, rule.fired) == (2, 1)


@pytest.mark.parametrize("name", ["nack_publishes", "drop", "withhold_confirms"])
def test_a_fault_that_never_fired_says_that_the_publish_was_refused(
    server: FaultyServer, peer: Peer, name: str
) -> None:
    rule = getattr(server.faults, name)()

    peer.publish(1, b"a", exchange="nowhere")

    expected = "1 basic.publish did not match; refused: \"NOT_FOUND - no exchange 'nowhere' in vhost '/'\""
    assert rule.complaint().endswith(expected)


def test_the_message_in_the_trace_is_the_one_a_consumer_would_have_got(server: FaultyServer, peer: Peer) -> None:
    server.faults.drop()

    peer.publish(1, b"a", headers={"b": 1, "a": 2, "BCC": ["q"]})

    (published,) = server.events("published")
    assert published.message.headers.to_python() == {"a": 2, "b": 1}
    assert (published.tag, published.message.id) == (1, 1)
