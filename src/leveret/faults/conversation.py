"""Faults of a conversation: a connection or channel closed or lost, a reply withheld or late, a restart of the broker.

A fault that ends a connection or a channel before the broker handles a method takes effect at once. At every other
point it waits until the broker has finished its current step, so that no queue is left in an inconsistent state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal, cast, get_args

from leveret.core.model.errors import AmqpError
from leveret.core.model.node import Node
from leveret.core.model.queues.consumer import Consumer
from leveret.core.protocol.channel import Channel
from leveret.core.wire.constants import REPLY_NAMES
from leveret.core.wire.methods import ConnectionStartOk
from leveret.faults.fault import AFTER_ACCEPT, SECOND_US, Fault, Target, checked_span_us
from leveret.faults.occasion import Occasion
from leveret.observe.assertions.keywords import Alarm

When = Literal["before", "after"]


def refusal(code: int, text: str, *, is_hard: bool) -> AmqpError:
    """Return the error that RabbitMQ would send with this code and text. An unknown code is named CODE_<code>."""
    name = REPLY_NAMES.get(code, f"CODE_{code}")
    kind = cast("type[AmqpError]", type("Injected", (AmqpError,), {"code": code, "name": name, "is_hard": is_hard}))
    return kind(text)


class CloseChannel(Fault):
    """A closed channel: the broker closes it with any code and does not handle the method."""

    name = "close_channel"
    is_ending = True
    needs_connection = True
    points = AFTER_ACCEPT
    target: ClassVar[Target] = "channel"
    needs_channel = True

    def __init__(self, code: int = 406, text: str = "closed by a fault") -> None:
        self.code, self.text = code, text

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the channel is open."""
        return occasion.channel is not None

    def apply(self, occasion: Occasion) -> bool:
        """Refuse the client's method, or close the channel after the broker's current step."""
        error = refusal(self.code, self.text, is_hard=False)
        if occasion.point == "method":
            raise error
        connection, number = occasion.connection, occasion.channel_number
        assert connection is not None
        assert number is not None
        occasion.call_soon(partial(connection.refuse, number, error.at(0)))
        return occasion.point == "reply"


class CloseConnection(Fault):
    """A closed connection: the broker closes it with any code and does not handle the method."""

    name = "close_connection"
    is_ending = True
    needs_connection = True
    points = AFTER_ACCEPT

    def __init__(self, code: int = 320, text: str = "closed by a fault") -> None:
        self.code, self.text = code, text

    def apply(self, occasion: Occasion) -> bool:
        """Refuse the client's method, or close the connection after the broker's current step."""
        error = refusal(self.code, self.text, is_hard=True)
        if occasion.point == "method":
            raise error
        assert occasion.connection is not None
        occasion.call_soon(partial(occasion.connection.close, error.at(0)))
        return occasion.point == "reply"


class ResetPeer(Fault):
    """A lost connection: it is reset `when` ("before" or "after") the broker does what it is about to do."""

    name = "reset_peer"
    is_ending = True
    needs_connection = True

    def __init__(self, when: When = "before") -> None:
        __tracebackhide__ = True
        if when not in ("before", "after"):
            raise ValueError(f"when={when!r} is unknown; expected 'before' or 'after'")
        self.when = when

    def apply(self, occasion: Occasion) -> bool:
        """Reset the socket. With "after", a method is handled but its reply lost; a reply or delivery is sent first."""
        connection = occasion.connection
        assert connection is not None
        if occasion.point == "method":
            first = connection.output_count
            if self.when == "after":
                occasion.proceed()
            connection.reset()
            if self.when == "after":
                connection.forget_output(first)
            return True
        if occasion.point == "accept":
            connection.reset()
            return True
        if occasion.point == "deliver" and self.when == "before":
            occasion.proceed_silently()
        elif occasion.point in ("reply", "deliver") and self.when == "after":
            occasion.proceed()
        occasion.call_soon(connection.reset)
        return True


class FailLogin(Fault):
    """A failed login, with any user name and password."""

    name = "fail_login"
    points = ("method",)

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the method is the login."""
        return isinstance(occasion.method, ConnectionStartOk)

    def apply(self, occasion: Occasion) -> bool:
        """Replace the client's login with an empty user name and password, which no user has."""
        method = occasion.method
        assert isinstance(method, ConnectionStartOk)
        method.mechanism, method.response = "PLAIN", b"\0\0"
        return False


class Withhold(Fault):
    """A reply that never comes."""

    name = "withhold"
    points = ("reply",)

    def apply(self, occasion: Occasion) -> bool:
        """Take over without sending the reply."""
        return True


class Delay(Fault):
    """A delay: a method and those behind it on its channel are handled later, or a reply or delivery is sent later."""

    name = "delay"
    points = ("method", "reply", "deliver")

    def __init__(self, seconds: float) -> None:
        __tracebackhide__ = True
        self.span_us = checked_span_us(seconds)

    def apply(self, occasion: Occasion) -> bool:
        """Hold it back for the delay."""
        connection, number = occasion.connection, occasion.channel_number
        assert connection is not None
        assert number is not None
        if occasion.point == "method":
            connection.hold(number)
            act: Callable[[], None] = partial(connection.release, number, occasion.proceed)
        elif occasion.point == "deliver":
            act = occasion.proceed
        else:
            act = partial(_send_late, occasion)
        occasion.hold_for(self.name, self.span_us, act)
        return True


def _send_late(occasion: Occasion) -> None:
    assert occasion.connection is not None
    if not occasion.connection.state.is_over:
        occasion.proceed()


class CancelConsumers(Fault):
    """A cancelled consumer: the broker cancels it, as when its queue is deleted."""

    name = "cancel_consumers"
    is_ending = True
    unmet = "without a consumer"
    needs_connection = True
    points = ("method", "reply", "event", "now")
    target: ClassVar[Target] = "consumer"

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the occasion has a consumer to cancel."""
        return bool(_consumers(occasion))

    def apply(self, occasion: Occasion) -> bool:
        """Remove the consumers from their queues, and notify the client if it supports that."""
        for channel, consumer in _consumers(occasion):
            occasion.call_soon(partial(_cancel, channel, consumer))
        return False


def _consumers(occasion: Occasion) -> list[tuple[Channel, Consumer]]:
    """Return the consumer that the occasion names, or else all consumers of its channel."""
    channel, tag = occasion.channel, occasion.consumer
    if channel is None:
        return []
    return [(channel, consumer) for consumer in channel.consumers.values() if tag in (None, consumer.tag)]


def _cancel(channel: Channel, consumer: Consumer) -> None:
    if channel.consumers.get(consumer.tag) is consumer:
        consumer.queue.remove_consumer(consumer)
        channel.cancelled(consumer, "a fault")


class BlockPublishers(Fault):
    """A resource alarm: publishers are blocked until the rule is removed."""

    name = "block_publishers"
    is_ending = True
    points = AFTER_ACCEPT
    target: ClassVar[Target] = "node"

    def __init__(self, resource: Alarm = "memory") -> None:
        __tracebackhide__ = True
        if resource not in get_args(Alarm):
            raise ValueError(f"resource={resource!r} is unknown; expected 'memory' or 'disk'")
        self.resource = resource

    def apply(self, occasion: Occasion) -> bool:
        """Raise the alarm."""
        occasion.node.set_alarm(self.resource)
        return False

    def end(self, node: Node) -> None:
        """Clear the alarm."""
        node.clear_alarm(self.resource)


class Restart(Fault):
    """A restart: the broker shuts down with RabbitMQ's text and is back at once. What is durable stays."""

    name = "restart"
    is_ending = True
    points = AFTER_ACCEPT
    target: ClassVar[Target] = "node"

    def __init__(self, at: float | None = None) -> None:
        __tracebackhide__ = True
        if at is not None and not at >= 0:
            raise ValueError(f"at={at!r} must be a number of seconds from now, 0 or more")
        # Seconds of the broker's clock to wait; without it, the broker restarts after its current step.
        self.at = at

    def apply(self, occasion: Occasion) -> bool:
        """Restart. The method or the reply of this occasion is lost."""
        if self.at:
            occasion.call_later(round(self.at * SECOND_US), occasion.node.restart)
            return False
        occasion.call_soon(occasion.node.restart)
        if occasion.point == "deliver":
            occasion.proceed_silently()
        return True
