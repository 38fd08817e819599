"""The seams of the core: the tap is told what happened, the faults say what should go wrong. None when unused.

A third, the witness, may know why something happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.trace.events import Tap

Witness = Callable[[], str | None]


class Faults:
    """What should go wrong, by the point at which the core asks; each is None while nothing should go wrong there.

    Each answers True when it has taken over, and the core then does nothing more about the matter.
    """

    __slots__ = ("accept", "confirm", "deliver", "is_armed", "method", "reply")

    def __init__(self) -> None:
        # While any is set, nothing takes a fast road past the points.
        self.is_armed = False
        # (connection) that a client has just made.
        self.accept: Callable[..., bool] | None = None
        # (connection, channel number, method, content or None, what would be done) for what a client sends.
        self.method: Callable[..., bool] | None = None
        # (connection, channel number, method, its octets, message or None) for what the broker sends.
        self.reply: Callable[..., bool] | None = None
        # (channel, consumer, entry) for what is about to be sent to a consumer.
        self.deliver: Callable[..., bool] | None = None
        # (channel, message, sequence, whether it was taken) for what a publisher is about to be owed.
        self.confirm: Callable[..., bool] | None = None


class Hooks:
    """What the core calls outwards: `tap` takes one raw event, laid out as `leveret.trace.events.TABLE` says.

    `witness` names the line of the user's code that waits for a client just now. It is asked when a connection is
    opened or a client refused, and its answer goes to the tap and nowhere else.
    """

    __slots__ = ("faults", "tap", "witness")

    def __init__(self, tap: Tap | None = None, witness: Witness | None = None) -> None:
        self.tap = tap
        self.witness = witness
        self.faults = Faults()
