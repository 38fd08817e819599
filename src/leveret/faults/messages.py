"""Faults of messages: lost, nacked, not confirmed, duplicated, redelivered, reordered or expired too early.

The state of the queue stays consistent. As far as the broker knows, the consumer holds a delivery that was lost. When
the consumer goes, the message returns to its queue, as it does with RabbitMQ.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from leveret.core.model.dead_letters import dead_letter
from leveret.core.model.message import QueueEntry
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.queue import Queue
from leveret.core.protocol import publishing
from leveret.core.protocol.channel import Channel
from leveret.core.wire.methods import BasicPublish
from leveret.faults.fault import SECOND_US, Fault, Target, checked_span_us
from leveret.faults.occasion import Occasion
from leveret.trace import events

_UNCONFIRMED: Final = "its channel is not in confirm mode"


class Drop(Fault):
    """The loss of one method on its way, in either direction: a publish that is confirmed, a delivery, an ack."""

    name = "drop"
    points = ("method", "reply", "deliver")

    def apply(self, occasion: Occasion) -> bool:
        """Lose it, so that its sender cannot notice."""
        if occasion.point == "deliver":
            occasion.proceed_silently()
        elif isinstance(occasion.method, BasicPublish):
            _discard(occasion, is_taken=True)
        return True


def _discard(occasion: Occasion, *, is_taken: bool) -> None:
    """Answer a publish as if its message had been enqueued, or refused, and enqueue it nowhere."""
    channel, content, method = occasion.channel, occasion.content, occasion.method
    assert channel is not None
    assert content is not None
    assert isinstance(method, BasicPublish)
    publishing.publish_nowhere(channel, publishing.checked(channel, method, content), is_taken=is_taken)


class NackPublish(Fault):
    """A nack: the broker does not accept a message, as when a queue is full or has crashed."""

    name = "nack_publishes"
    points = ("method",)
    needs_channel = True
    unmet = _UNCONFIRMED

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the channel is in confirm mode, without which it gets no nacks."""
        return occasion.content is not None and occasion.channel is not None and occasion.channel.confirms is not None

    def apply(self, occasion: Occasion) -> bool:
        """Owe the publisher a nack and discard the message."""
        _discard(occasion, is_taken=False)
        return True


class WithholdConfirm(Fault):
    """A missing confirm: the broker accepts a message and never confirms it."""

    name = "withhold_confirms"
    points = ("confirm",)
    unmet = _UNCONFIRMED

    def apply(self, occasion: Occasion) -> bool:
        """Withhold the confirm. No later confirm covers this publish."""
        channel = occasion.channel
        assert channel is not None
        assert channel.confirms is not None
        channel.confirms.withheld[occasion.sequence] = None
        return True


class DelayConfirm(WithholdConfirm):
    """A late confirm: the broker accepts a message and confirms it later."""

    name = "delay_confirms"

    def __init__(self, seconds: float) -> None:
        __tracebackhide__ = True
        self.span_us = checked_span_us(seconds)

    def apply(self, occasion: Occasion) -> bool:
        """Hold the confirm back for the delay."""
        assert occasion.channel is not None
        occasion.hold_for(self.name, self.span_us, partial(_confirm, occasion, occasion.channel))
        return super().apply(occasion)


def _confirm(occasion: Occasion, channel: Channel) -> None:
    if occasion.is_gone or occasion.channel is not channel:
        return
    assert channel.confirms is not None
    assert occasion.source is not None
    channel.confirms.settle(occasion.sequence, occasion.source, occasion.is_taken)
    # Sent while it still counts as withheld, so that it covers no other publish.
    channel.flush_confirms()
    del channel.confirms.withheld[occasion.sequence]


class Duplicate(Fault):
    """A second delivery of a message: a copy of it is put at the head of its queue."""

    name = "duplicate"
    points = ("deliver",)
    # Whether the copy is flagged as redelivered.
    is_flagged: ClassVar[bool] = False

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the queue is not a stream, which cannot hold extra copies, and this is not such a copy."""
        consumer, entry = occasion.subscription, occasion.entry
        is_original = entry is not None and entry.copy not in self._copies
        return is_original and consumer is not None and isinstance(consumer.queue, Queue)

    def __init__(self) -> None:
        self._copies: dict[int, None] = {}

    def apply(self, occasion: Occasion) -> bool:
        """Enqueue a copy once this message has been delivered."""
        entry, consumer = occasion.entry, occasion.subscription
        assert entry is not None
        assert consumer is not None
        occasion.call_soon(partial(self._enqueue_copy, consumer.queue, entry))
        return False

    def _enqueue_copy(self, queue: object, entry: QueueEntry) -> None:
        assert isinstance(queue, Queue)
        if queue.is_deleted:
            return
        copy = queue.new_entry(entry.message)
        copy.position, copy.priority, copy.redelivered = entry.position, entry.priority, self.is_flagged
        copy.acquired_count = entry.acquired_count + self.is_flagged
        self._copies[copy.copy] = None
        queue.tap_copy(events.ENQUEUED, copy, None, None)
        queue.ready.put_back([copy])
        queue.deliver_ready()


class Redeliver(Duplicate):
    """A second delivery of a message, flagged as redelivered, as after a lost connection."""

    name = "redeliver"
    is_flagged = True


class Reorder(Fault):
    """A wrong order: a consumer's deliveries are collected and sent in a different order."""

    name = "reorder"
    points = ("deliver",)

    def __init__(self, window: int = 3, seconds: float = 0.1) -> None:
        self.window, self.span_us = window, round(seconds * SECOND_US)
        # The deliveries collected so far, by consumer.
        self._collected: dict[Consumer, list[Occasion]] = {}

    def apply(self, occasion: Occasion) -> bool:
        """Hold the delivery back until the window is full or the time is up."""
        consumer = occasion.subscription
        assert consumer is not None
        collected = self._collected.setdefault(consumer, [])
        collected.append(occasion)
        first = collected[0]
        occasion.hold(self.name, occasion.node.now + self.span_us if first is occasion else first.held[first][1])
        if len(collected) == self.window:
            occasion.call_soon(partial(self._send, consumer, collected))
        elif len(collected) == 1:
            occasion.call_later(self.span_us, partial(self._send, consumer, collected))
        return True

    def _send(self, consumer: Consumer, collected: list[Occasion]) -> None:
        if self._collected.get(consumer) is collected:
            del self._collected[consumer]
            for occasion in _shuffled(collected):
                occasion.release()
                occasion.proceed()


def _shuffled(collected: list[Occasion]) -> list[Occasion]:
    """Return the deliveries in a different order, if there are two or more."""
    shuffled = sorted(collected, key=lambda occasion: occasion.dice.random())
    return shuffled if shuffled != collected or len(collected) < 2 else collected[1:] + collected[:1]


class Expire(Fault):
    """The expiry of a message at once, at any position of its queue."""

    name = "expire"
    points = ("event",)
    target: ClassVar[Target] = "node"

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the event is about a message in a queue."""
        return occasion.queue is not None and occasion.source is not None

    def apply(self, occasion: Occasion) -> bool:
        """Expire the message, and dead-letter it if its queue has a dead-letter exchange."""
        for vhost in occasion.node.vhosts.values():
            queue = vhost.queues.get(occasion.queue or "")
            if isinstance(queue, Queue):
                _expire(queue, occasion)
        return False


def _expire(queue: Queue, occasion: Occasion) -> None:
    source = occasion.source
    assert source is not None
    expired = queue.ready.take_out(lambda entry: entry.message.is_same(source))
    for entry in expired:
        queue.tap_copy(events.EXPIRED, entry)
        dead_letter.send(queue, entry, dead_letter.EXPIRED)
