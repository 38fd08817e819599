"""Faults of publisher confirms: a publish is nacked, or its confirm is withheld or late."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from leveret.core.protocol import publishing
from leveret.core.wire.methods import BasicPublish
from leveret.faults.conversation import SECOND_US
from leveret.faults.fault import Fault
from leveret.faults.occasion import Occasion

if TYPE_CHECKING:
    from leveret.core.protocol.channel import Channel

UNCONFIRMED: Final = "its channel is not in confirm mode"


class NackPublish(Fault):
    """A nack: the broker does not accept a message, as when a queue is full or has crashed."""

    name = "nack_publishes"
    points = ("method",)
    needs_channel = True
    unmet = UNCONFIRMED

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the channel is in confirm mode, without which it gets no nacks."""
        return occasion.content is not None and occasion.channel is not None and occasion.channel.confirms is not None

    def apply(self, occasion: Occasion) -> bool:
        """Owe the publisher a nack and discard the message."""
        channel, content, method = occasion.channel, occasion.content, occasion.method
        assert channel is not None
        assert content is not None
        assert isinstance(method, BasicPublish)
        publishing.publish_nowhere(channel, publishing.checked(channel, method, content), is_taken=False)
        return True


class WithholdConfirm(Fault):
    """A missing confirm: the broker accepts a message and never confirms it."""

    name = "withhold_confirms"
    points = ("confirm",)
    unmet = UNCONFIRMED

    def apply(self, occasion: Occasion) -> bool:
        """Withhold the confirm. No later confirm covers this publish."""
        channel = occasion.channel
        assert channel is not None
        assert channel.confirms is not None
        channel.confirms.withheld[occasion.sequence] = None
        return True


class DelayConfirm(Fault):
    """A late confirm: the broker accepts a message and confirms it later."""

    name = "delay_confirms"
    points = ("confirm",)
    unmet = UNCONFIRMED

    def __init__(self, seconds: float) -> None:
        __tracebackhide__ = True
        if not seconds > 0:
            raise ValueError(f"seconds={seconds!r} must be above 0")
        self.span_us = round(seconds * SECOND_US)

    def apply(self, occasion: Occasion) -> bool:
        """Hold the confirm back for the delay."""
        channel = occasion.channel
        assert channel is not None
        assert channel.confirms is not None
        channel.confirms.withheld[occasion.sequence] = None
        occasion.hold_for(self.name, self.span_us, partial(_confirm, occasion, channel))
        return True


def _confirm(occasion: Occasion, channel: Channel) -> None:
    if occasion.is_gone or occasion.channel is not channel:
        return
    assert channel.confirms is not None
    assert occasion.source is not None
    channel.confirms.settle(occasion.sequence, occasion.source, occasion.is_taken)
    # Sent while it still counts as withheld, so that it covers no other publish.
    channel.flush_confirms()
    del channel.confirms.withheld[occasion.sequence]
