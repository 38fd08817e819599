"""What goes wrong between a publisher and the broker: a publish is nacked, or its confirm does not come, or late."""

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

UNCONFIRMED: Final = "not in confirm mode"


class NackPublish(Fault):
    """The broker does not take a message and says so, as a full queue or a crashed one makes it."""

    name = "nack_publishes"
    points = ("method",)
    needs_channel = True
    not_here = UNCONFIRMED

    def applies(self, occasion: Occasion) -> bool:
        """Only a channel in confirm mode can be told."""
        return occasion.content is not None and occasion.channel is not None and occasion.channel.confirms is not None

    def strike(self, occasion: Occasion) -> bool:
        """Owe the publisher a nack, and put the message nowhere."""
        channel, content, method = occasion.channel, occasion.content, occasion.method
        assert channel is not None
        assert content is not None
        assert isinstance(method, BasicPublish)
        publishing.publish_nowhere(channel, publishing.checked(channel, method, content), is_taken=False)
        return True


class WithholdConfirm(Fault):
    """The broker takes a message and its publisher never hears of it."""

    name = "withhold_confirms"
    points = ("confirm",)
    not_here = UNCONFIRMED

    def strike(self, occasion: Occasion) -> bool:
        """Owe the publisher nothing; no later confirm may cover this one."""
        channel = occasion.channel
        assert channel is not None
        assert channel.confirms is not None
        channel.confirms.withheld[occasion.sequence] = None
        return True


class DelayConfirm(Fault):
    """The broker takes a message and its publisher hears of it later."""

    name = "delay_confirms"
    points = ("confirm",)
    not_here = UNCONFIRMED

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"a delay of {seconds!r} seconds is none")
        self.span_us = round(seconds * SECOND_US)

    def strike(self, occasion: Occasion) -> bool:
        """Owe it later."""
        channel = occasion.channel
        assert channel is not None
        assert channel.confirms is not None
        channel.confirms.withheld[occasion.sequence] = None
        occasion.keep_until(self.name, self.span_us, partial(_confirm, occasion, channel))
        return True


def _confirm(occasion: Occasion, channel: Channel) -> None:
    if occasion.is_gone or occasion.channel is not channel:
        return
    assert channel.confirms is not None
    assert occasion.source is not None
    channel.confirms.settle(occasion.sequence, occasion.source, occasion.is_taken)
    # Told while it still counts as withheld, so that it covers no other.
    channel.flush_confirms()
    del channel.confirms.withheld[occasion.sequence]
