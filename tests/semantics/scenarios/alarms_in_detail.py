"""Where exactly an alarm stops a publisher, and what else ends the stop besides the end of the alarm."""

from __future__ import annotations

from ..client import CAPABILITIES
from ..scenario import Channel, Run, scenario


def publisher(s: Run) -> Channel:
    ch = s.channel(on=s.connect())
    ch.declare("q")
    ch.confirm_select()
    return ch


@scenario(needs_own_node=True)
def a_message_without_a_body_goes_through_and_blocks(s: Run) -> None:
    ch, other = publisher(s), s.channel(on=s.connect())
    s.operator.set_alarm("memory")
    ch.publish("", "q", "")
    ch.connection.take(0, "connection.blocked")
    ch.confirms()
    other.await_count("q", 1)
    s.operator.clear_alarm("memory")

    ch.connection.take(0, "connection.unblocked")


@scenario(needs_own_node=True)
def a_second_message_waits_behind_the_first(s: Run) -> None:
    ch, other = publisher(s), s.channel(on=s.connect())
    s.operator.set_alarm("memory")
    ch.publish("", "q", "")
    ch.publish("", "q", "")
    ch.connection.take(0, "connection.blocked")
    other.await_count("q", 1)
    s.operator.clear_alarm("memory")
    ch.connection.take(0, "connection.unblocked")
    ch.confirms()

    other.await_count("q", 2)


@scenario(needs_own_node=True)
def an_alarm_that_goes_and_comes_blocks_again(s: Run) -> None:
    ch = publisher(s)
    for _ in range(2):
        s.operator.set_alarm("disk")
        ch.publish("", "q", "")
        ch.connection.take(0, "connection.blocked")
        s.operator.clear_alarm("disk")
        ch.connection.take(0, "connection.unblocked")
    ch.confirms()


@scenario(needs_own_node=True)
def other_methods_do_not_block(s: Run) -> None:
    ch = publisher(s)
    ch.publish("", "q", "1")
    ch.confirms()
    ch.await_count("q", 1)
    s.operator.set_alarm("memory")
    delivery = ch.get("q")
    ch.ack(delivery)
    ch.declare("other")
    ch.purge("other")
    s.operator.clear_alarm("memory")


@scenario(needs_own_node=True)
def a_blocked_connection_is_closed_by_the_operator(s: Run) -> None:
    s.operator.add_user("worker", "secret")
    s.operator.set_permissions("worker", s.vhost)
    ch = s.channel(on=s.connect(user="worker", password="secret"))
    ch.declare("q")
    s.operator.set_alarm("memory")
    ch.publish("", "q", "1")
    ch.connection.take(0, "connection.blocked")
    s.operator.close_connections("worker", "enough")
    ch.connection.take(0, "connection.close")
    s.operator.clear_alarm("memory")

    s.channel(on=s.connect()).await_count("q", 0)


@scenario(needs_own_node=True)
def a_client_without_the_capability_loses_nothing(s: Run) -> None:
    ch = s.channel(on=s.connect(capabilities={**CAPABILITIES, "connection.blocked": False}))
    other = s.channel(on=s.connect())
    ch.declare("q")
    s.operator.set_alarm("disk")
    ch.publish("", "q", "")
    ch.publish("", "q", "2")
    ch.send("queue.declare", queue="behind", durable=True, arguments={})
    other.await_count("q", 1)
    s.operator.clear_alarm("disk")
    ch.receive("queue.declare-ok")

    other.await_count("q", 2)
