"""What goes wrong between a publisher and the broker: a publish is nacked, or its confirm does not come, or late."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from leveret.faults.conversation import SECOND_US
from leveret.faults.fault import Fault
from leveret.faults.occasion import Occasion

if TYPE_CHECKING:
    from leveret.protocol.channel import Channel


class NackPublish(Fault):
    """The broker does not take a message and says so, as a full queue or a crashed one makes it."""

    name = "nack_publishes"
    points = ("method",)
    needs_channel = True

    def applies(self, occasion: Occasion) -> bool:
        """Only a channel in confirm mode can be told."""
        return occasion.content is not None and occasion.channel is not None and occasion.channel.confirms is not None

    def strike(self, occasion: Occasion) -> bool:
        """Owe the publisher a nack, and put the message nowhere."""
        channel = occasion.channel
        assert channel is not None
        assert channel.confirms is not None
        channel.confirms.settle(channel.confirms.next_sequence(), is_taken=False)
        channel.connection.confirming[channel] = None
        return True


class WithholdConfirm(Fault):
    """The broker takes a message and its publisher never hears of it."""

    name = "withhold_confirms"
    points = ("confirm",)

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
        occasion.later(self.span_us, partial(_confirm, occasion, channel))
        return True


def _confirm(occasion: Occasion, channel: Channel) -> None:
    if occasion.is_gone or occasion.channel is not channel:
        return
    assert channel.confirms is not None
    channel.confirms.settle(occasion.sequence, is_taken=occasion.is_taken)
    # Told while it still counts as withheld, so that it covers no other.
    channel.flush_confirms()
    del channel.confirms.withheld[occasion.sequence]
