"""The deletion of a virtual host, as its clients see it: the cancels of consumers come before the end."""

from __future__ import annotations

from collections.abc import Mapping

from ..client import CAPABILITIES, Connection
from ..scenario import Channel, Run, scenario


def delete(s: Run, *connections: Connection) -> None:
    """Delete the virtual host, and read what its clients hear.

    The text of the close is left out: RabbitMQ says "is deleted" or "is down", whichever a connection hears of first.
    """
    for connection in connections:
        connection.answers_close = False
        connection.log.hidden.add("connection.close")
    s.operator.delete_vhost(s.vhost + "2")
    for connection in connections:
        end = connection.take(0, "connection.close")
        cancel_count = sum(event.name == "basic.cancel" for event in connection.events)
        connection.log.write(0, f"connection.close {end['reply_code']} after {cancel_count} cancels")


def connected(s: Run, capabilities: Mapping[str, object] = CAPABILITIES) -> Connection:
    """Return a connection to a second virtual host, which the scenario deletes."""
    return s.connect(vhost=s.vhost + "2", capabilities=capabilities)


def begin(s: Run) -> None:
    """Add the virtual host."""
    s.operator.add_vhost(s.vhost + "2")
    s.operator.set_permissions("guest", s.vhost + "2")


def consuming(
    s: Run, on: Connection, kind: str = "classic", queue: str = "q", tag: str = "c", **more: object
) -> Channel:
    """Return a channel with a consumer."""
    ch = s.channel(on=on)
    ch.declare(queue, arguments={"x-queue-type": kind}, **more)
    ch.qos(1)
    ch.consume(queue, tag)
    return ch


@scenario
def a_consumer_of_a_classic_queue(s: Run) -> None:
    begin(s)
    consuming(s, on := connected(s))
    delete(s, on)


@scenario
def a_consumer_of_a_quorum_queue(s: Run) -> None:
    begin(s)
    consuming(s, on := connected(s), "quorum")
    delete(s, on)


@scenario
def a_consumer_of_a_stream(s: Run) -> None:
    begin(s)
    consuming(s, on := connected(s), "stream")
    delete(s, on)


@scenario
def a_consumer_of_an_exclusive_queue(s: Run) -> None:
    begin(s)
    consuming(s, on := connected(s), exclusive=True)
    delete(s, on)


@scenario
def a_consumer_that_holds_a_message(s: Run) -> None:
    begin(s)
    ch = consuming(s, on := connected(s))
    ch.publish("", "q", "1")
    ch.deliver()
    delete(s, on)


@scenario
def consumers_on_two_channels(s: Run) -> None:
    begin(s)
    on = connected(s)
    consuming(s, on, queue="q1", tag="one")
    consuming(s, on, queue="q2", tag="two")
    delete(s, on)


@scenario
def two_consumers_of_one_queue(s: Run) -> None:
    begin(s)
    on = connected(s)
    consuming(s, on, tag="one")
    consuming(s, on, tag="two")
    delete(s, on)


@scenario
def consumers_on_two_connections(s: Run) -> None:
    begin(s)
    one, two = connected(s), connected(s)
    consuming(s, one, tag="one")
    consuming(s, two, tag="two")
    delete(s, one, two)


@scenario
def a_consumer_that_wants_no_notice(s: Run) -> None:
    begin(s)
    consuming(s, on := connected(s, {**CAPABILITIES, "consumer_cancel_notify": False}))
    delete(s, on)


@scenario
def a_client_without_a_consumer(s: Run) -> None:
    begin(s)
    on = connected(s)
    s.channel(on=on).declare("q")
    delete(s, on)


@scenario
def a_consumer_elsewhere_hears_nothing(s: Run) -> None:
    begin(s)
    ch = consuming(s, s.connect())
    s.operator.delete_vhost(s.vhost + "2")
    ch.publish("", "q", "1")
    ch.deliver()
