"""An internal error of leveret's, caused by a tap that raises: the client gets 541, the test the original error."""

from __future__ import annotations

import pytest
from pamqp import commands
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue

from leveret.core.hooks import Hooks
from leveret.trace import events
from leveret.trace.events import RawEvent
from tests.protocol.peer import Peer, Server, contents, declare, names, the


class Broken(Exception):
    """An exception that no part of leveret expects."""


class Trap:
    """A tap that raises at certain events, at most so many times."""

    def __init__(self, *kinds: str, times: int = 1) -> None:
        self.kinds = kinds
        self.times = times

    def __call__(self, event: RawEvent) -> None:
        if self.times and event[0] in self.kinds:
            self.times -= 1
            raise Broken(event[0])


def trapped(*kinds: str, times: int = 1) -> Server:
    return Server(hooks=Hooks(Trap(*kinds, times=times)))


def errors(server: Server) -> list[str]:
    assert all(isinstance(error, Broken) for error in server.node.internal_errors)
    return [str(error) for error in server.node.internal_errors]


def test_an_internal_error_closes_with_541_and_the_test_gets_the_original() -> None:
    server = trapped(events.QUEUE_DECLARE)
    peer = server.peer()

    close = the(peer.call(1, declare()), commands.Connection.Close)

    assert (close.reply_code, close.reply_text, close.class_id, close.method_id) == (541, "INTERNAL_ERROR", 0, 0)
    assert errors(server) == ["queue_declare"]
    assert server.node.internal_errors[0].__traceback__ is not None


def test_the_connection_ends_as_after_any_other_error() -> None:
    server = trapped(events.QUEUE_DECLARE)
    peer = server.peer()
    peer.send(1, declare())

    before = peer.connection.is_reset
    peer.send(0, commands.Connection.CloseOk())

    assert (before, peer.connection.is_reset) == (False, True)
    assert not server.node.connections


def test_another_connection_goes_on() -> None:
    server = trapped(events.PUBLISHED)
    broken, other = server.peer(), server.peer()
    other.send(1, declare())
    broken.publish(1, b"1")
    other.read()

    other.publish(1, b"2")

    assert contents(other.call(1, Basic.Get(queue="q"))) == [b"2"]


def test_what_the_broken_connection_held_comes_back() -> None:
    server = trapped(events.BIND)
    broken, other = server.peer(), server.peer()
    broken.send(1, declare(), Basic.Consume(queue="q"))
    broken.publish(1, b"1")

    broken.send(1, Queue.Bind(queue="q", exchange="amq.fanout"))

    assert contents(other.call(1, Basic.Get(queue="q"))) == [b"1"]


@pytest.mark.parametrize("times", [1, 2, 1_000_000])
@pytest.mark.parametrize("kind", sorted(set(events.KINDS) - {"called", "test_start", "test_end"}))
def test_a_conversation_never_raises(kind: str, times: int) -> None:
    server = trapped(kind, times=times)
    peer = server.stranger()
    peer.open()

    talk(peer)
    peer.connection.connection_lost()

    assert set(errors(server)) <= {kind}


def talk(peer: Peer) -> None:
    """Cause nearly every kind of event in one conversation."""
    peer.send(1, Channel.Open(), Confirm.Select(), Exchange.Declare(exchange="x"))
    peer.send(1, declare(dead_letter_exchange="x", max_length=2), Queue.Bind(queue="q", exchange="x"))
    peer.send(1, Queue.Unbind(queue="q", exchange="x"), Basic.Qos(prefetch_count=1))
    for number in range(4):
        peer.publish(1, b"%d" % number, expiration="500", mandatory=True)
    peer.publish(1, b"lost", "nowhere", mandatory=True)
    peer.send(
        1, Basic.Get(queue="q"), Basic.Nack(1, requeue=True), Basic.Get(queue="q"), Basic.Reject(2, requeue=False)
    )
    peer.send(1, Basic.Consume(queue="q", consumer_tag="c"), Basic.Ack(3), Basic.Cancel(consumer_tag="c"))
    peer.send(1, Queue.Purge(queue="q"), Exchange.Delete(exchange="x"), Queue.Delete(queue="q"))
    peer.send(1, Channel.Close(200, "bye", 0, 0))
    peer.send(0, commands.Connection.Close(200, "bye", 0, 0))


def test_a_conversation_without_an_injected_error_succeeds() -> None:
    server = trapped()
    peer = server.stranger()
    peer.open()

    talk(peer)

    assert names(peer.read())[-1] == "Connection.CloseOk"
    assert errors(server) == []
