"""Memory and disk alarms, as connections that publish see them."""

from __future__ import annotations

from ..client import CAPABILITIES
from ..scenario import Run, scenario


@scenario(needs_own_node=True)
def a_publisher_is_blocked_and_unblocked(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    s.operator.set_alarm("memory")
    ch.publish("", "q", "1")
    ch.connection.take(0, "connection.blocked")
    s.operator.clear_alarm("memory")
    ch.connection.take(0, "connection.unblocked")
    ch.await_count("q", 1)

    ch.get("q")


@scenario(needs_own_node=True)
def who_does_not_publish_is_not_told(s: Run) -> None:
    before = s.channel(on=s.connect())
    before.declare("q")
    s.operator.set_alarm("memory")
    during = s.channel(on=s.connect())
    during.passive("q")
    before.passive("q")
    s.operator.clear_alarm("memory")

    before.passive("q")


@scenario(needs_own_node=True)
def two_alarms_are_told_once(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    s.operator.set_alarm("disk")
    ch.publish("", "q", "1")
    ch.connection.take(0, "connection.blocked")
    s.operator.set_alarm("memory")
    s.operator.clear_alarm("disk")
    ch.connection.log.write(0, "(disk is cleared)")
    s.operator.clear_alarm("memory")
    ch.connection.take(0, "connection.unblocked")

    ch.await_count("q", 1)


@scenario(needs_own_node=True)
def both_alarms_are_named(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    s.operator.set_alarm("memory")
    s.operator.set_alarm("disk")
    ch.publish("", "q", "1")
    ch.connection.take(0, "connection.blocked")
    s.operator.clear_alarm("memory")
    s.operator.clear_alarm("disk")

    ch.connection.take(0, "connection.unblocked")


@scenario(needs_own_node=True)
def a_client_without_the_capability_is_stopped_silently(s: Run) -> None:
    ch = s.channel(on=s.connect(capabilities={**CAPABILITIES, "connection.blocked": False}))
    ch.declare("q")
    s.operator.set_alarm("memory")
    ch.publish("", "q", "1")
    s.operator.clear_alarm("memory")

    ch.await_count("q", 1)


@scenario(needs_own_node=True)
def consumers_go_on_during_an_alarm(s: Run) -> None:
    publisher, consumer = s.channel(on=s.connect()), s.channel(on=s.connect())
    publisher.declare("q")
    publisher.fill("q", "1", "2")
    s.operator.set_alarm("memory")
    publisher.publish("", "q", "3")
    publisher.connection.take(0, "connection.blocked")
    consumer.consume("q")
    for _ in range(2):
        consumer.ack(consumer.deliver())
    s.operator.clear_alarm("memory")

    consumer.deliver()
    publisher.connection.take(0, "connection.unblocked")
