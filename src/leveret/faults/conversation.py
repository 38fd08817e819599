"""What goes wrong in a conversation: it is closed, lost or refused; an answer is withheld or late; a consumer is gone.

What ends a conversation before the broker handles a method takes effect at once; anywhere else it waits until the
broker has finished what it is about, so that no queue is left halfway.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, cast, get_args

from leveret.core.model.errors import AmqpError
from leveret.core.protocol.state import State
from leveret.core.wire.constants import REPLY_NAMES
from leveret.core.wire.methods import ConnectionStartOk
from leveret.faults.fault import ANYWHERE, Fault, Point, Target
from leveret.faults.occasion import Occasion
from leveret.observe.keywords import Alarm

if TYPE_CHECKING:
    from leveret.core.model.consumer import Consumer
    from leveret.core.model.message import QueueEntry
    from leveret.core.model.node import Node
    from leveret.core.protocol.channel import Channel

SECOND_US: Final = 1_000_000
When = Literal["before", "after"]


def refusal(code: int, text: str, *, is_hard: bool) -> AmqpError:
    """What RabbitMQ would send with this code and explanation; a code it does not know stands for itself."""
    name = REPLY_NAMES.get(code, f"CODE_{code}")
    kind = cast("type[AmqpError]", type("Injected", (AmqpError,), {"code": code, "name": name, "is_hard": is_hard}))
    return kind(text)


class CloseChannel(Fault):
    """The broker closes the channel, with any code, and the method is not handled."""

    name = "close_channel"
    is_ending = True
    needs_connection = True
    points = ("method", "reply", "deliver", "event", "now")
    target: ClassVar[Target] = "channel"
    needs_channel = True

    def __init__(self, code: int = 406, text: str = "closed by a fault") -> None:
        self.code, self.text = _checked_code(code), text

    def applies(self, occasion: Occasion) -> bool:
        """Only an open channel can be closed."""
        return occasion.channel is not None

    def strike(self, occasion: Occasion) -> bool:
        """Refuse what the client asked for, or the channel as it is."""
        error = refusal(self.code, self.text, is_hard=False)
        if occasion.point == "method":
            raise error
        connection, number = occasion.connection, occasion.channel_number
        assert connection is not None
        assert number is not None
        occasion.soon(partial(connection.refuse, number, error.at(0)))
        return occasion.point == "reply"


class CloseConnection(Fault):
    """The broker closes the connection, with any code, and the method is not handled."""

    name = "close_connection"
    is_ending = True
    needs_connection = True
    points = ("method", "reply", "deliver", "event", "now")

    def __init__(self, code: int = 320, text: str = "closed by a fault") -> None:
        self.code, self.text = _checked_code(code), text

    def applies(self, occasion: Occasion) -> bool:
        """Only of somebody who is there."""
        return occasion.connection is not None

    def strike(self, occasion: Occasion) -> bool:
        """Refuse what the client asked for, or the connection as it is."""
        error = refusal(self.code, self.text, is_hard=True)
        if occasion.point == "method":
            raise error
        assert occasion.connection is not None
        occasion.soon(partial(occasion.connection.close, error.at(0)))
        return occasion.point == "reply"


class ResetPeer(Fault):
    """The connection is lost without a word, before what is about to happen has happened, or after."""

    name = "reset_peer"
    is_ending = True
    needs_connection = True

    def __init__(self, when: When = "before") -> None:
        if when not in ("before", "after"):
            raise ValueError(f"when={when!r} is neither 'before' nor 'after'")
        self.when = when

    def applies(self, occasion: Occasion) -> bool:
        """Only of somebody who is there."""
        return occasion.connection is not None

    def strike(self, occasion: Occasion) -> bool:
        """Reset the socket; after a method its answer is lost too, after a reply or delivery that has been sent."""
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
        occasion.soon(connection.reset)
        return True


class FailLogin(Fault):
    """The login is refused, whatever the password."""

    name = "fail_login"
    points = ("method",)

    def applies(self, occasion: Occasion) -> bool:
        """Only where somebody logs in."""
        return isinstance(occasion.method, ConnectionStartOk)

    def strike(self, occasion: Occasion) -> bool:
        """Put a login in the place of the client's that nobody has."""
        method = occasion.method
        assert isinstance(method, ConnectionStartOk)
        method.mechanism, method.response = "PLAIN", b"\0\0"
        return False


class Withhold(Fault):
    """An answer never comes."""

    name = "withhold"
    points = ("reply",)

    def strike(self, occasion: Occasion) -> bool:
        """Send nothing."""
        return True


class Delay(Fault):
    """A method is handled later, and the channel's others behind it; or an answer or delivery is late."""

    name = "delay"
    points = ("method", "reply", "deliver")

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"a delay of {seconds!r} seconds is none")
        self.span_us = round(seconds * SECOND_US)

    def strike(self, occasion: Occasion) -> bool:
        """Do it later."""
        connection, number = occasion.connection, occasion.channel_number
        assert connection is not None
        assert number is not None
        if occasion.point == "method":
            connection.hold(number)
            act = partial(connection.release, number, occasion.proceed)
        elif occasion.point == "deliver":
            act = partial(hand_over, occasion)
        else:
            act = partial(_send_late, occasion)
        occasion.keep_until(self.name, self.span_us, act)
        return True


def _send_late(occasion: Occasion) -> None:
    assert occasion.connection is not None
    if occasion.connection.state is not State.ENDING:
        occasion.proceed()


def hand_over(occasion: Occasion) -> None:
    """Send a delivery that was held back; it returns to its queue where its consumer has gone meanwhile."""
    channel, consumer, entry = occasion.channel, occasion.subscription, occasion.entry
    assert consumer is not None
    assert entry is not None
    if occasion.is_gone or channel is None or channel.consumers.get(consumer.tag) is not consumer:
        _give_back(consumer, entry)
    else:
        occasion.proceed()


def _give_back(consumer: Consumer, entry: QueueEntry) -> None:
    if not consumer.no_ack:
        consumer.queue.requeue([(entry, consumer)], "channel_closed", is_failure=True)


class CancelConsumers(Fault):
    """The broker cancels a consumer, as it does when its queue is deleted."""

    name = "cancel_consumers"
    is_ending = True
    not_here = "where nobody consumes"
    needs_connection = True
    points = ("method", "reply", "event", "now")
    target: ClassVar[Target] = "consumer"

    def applies(self, occasion: Occasion) -> bool:
        """Only where there is a consumer to cancel."""
        return bool(_consumers(occasion))

    def strike(self, occasion: Occasion) -> bool:
        """Take the consumers away from their queues and tell the client, if it can be told."""
        for channel, consumer in _consumers(occasion):
            occasion.soon(partial(_cancel, channel, consumer))
        return False


def _consumers(occasion: Occasion) -> list[tuple[Channel, Consumer]]:
    """The consumer an occasion names, else those of its channel."""
    channel, tag = occasion.channel, occasion.consumer
    if channel is None:
        return []
    return [(channel, consumer) for consumer in channel.consumers.values() if tag in (None, consumer.tag)]


def _cancel(channel: Channel, consumer: Consumer) -> None:
    if channel.consumers.get(consumer.tag) is consumer:
        consumer.queue.remove_consumer(consumer)
        channel.cancelled(consumer, "a fault")


class BlockPublishers(Fault):
    """An alarm is on: whoever publishes is blocked, until the rule is removed."""

    name = "block_publishers"
    is_ending = True
    points: ClassVar[tuple[Point, ...]] = tuple(point for point in ANYWHERE if point != "accept")
    target: ClassVar[Target] = "node"

    def __init__(self, resource: Alarm = "memory") -> None:
        if resource not in get_args(Alarm):
            raise ValueError(f"there is no alarm for {resource!r}; there are 'memory' and 'disk'")
        self.resource = resource

    def strike(self, occasion: Occasion) -> bool:
        """Raise the alarm."""
        occasion.node.set_alarm(self.resource)
        return False

    def end(self, node: Node) -> None:
        """Clear it."""
        node.clear_alarm(self.resource)


def _checked_code(code: int) -> int:
    if not isinstance(code, int) or not 0 <= code <= 0xFFFF:
        raise ValueError(f"code={code!r} is no reply code")
    return code
