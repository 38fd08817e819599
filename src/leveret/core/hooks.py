"""The seams of the core: the tap records events, the faults decide what goes wrong, the witness explains.

Tap and witness are None while unused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from leveret.trace.caller import Caller
from leveret.trace.events import Tap

Witness = Callable[[], Caller | None]


class Faults:
    """What should go wrong, by the point at which the core asks. Each is None while nothing should go wrong there.

    Each returns True if it has taken over. The core then does nothing more about the matter.
    """

    __slots__ = ("accept", "confirm", "deliver", "is_armed", "method", "reply")

    def __init__(self) -> None:
        # Whether any of them is set. No shortcut then bypasses these points.
        self.is_armed = False
        # (connection) when a client has just connected.
        self.accept: Callable[..., bool] | None = None
        # (connection, channel number, method, content or None, the action it would cause) for what a client sends.
        self.method: Callable[..., bool] | None = None
        # (connection, channel number, method, its bytes, message or None) for what the broker sends.
        self.reply: Callable[..., bool] | None = None
        # (channel, consumer, entry) before an entry is sent to a consumer.
        self.deliver: Callable[..., bool] | None = None
        # (channel, message, sequence, whether it was taken) before a confirm is owed to a publisher.
        self.confirm: Callable[..., bool] | None = None


class Insight(Protocol):
    """What can be known of how a client handles one error that it did not wait for."""

    @property
    def is_certain_to_be_seen(self) -> bool:
        """Whether the user's code cannot miss the error, whatever it does next."""

    @property
    def ignores_returns(self) -> bool:
        """Whether the client is known to drop messages that are returned to such a channel."""

    @property
    def may_be_cleared(self) -> bool:
        """Whether the user's code may drop, without a trace, an error that a call of the client has raised."""

    def is_raised_by_close(self) -> bool:
        """Return whether a client is in a call that closes a channel and raises the error."""

    def is_opened_by_client_itself(self) -> bool:
        """Return whether a client is opening a channel without a call of the user's code."""

    def was_raised(self) -> bool:
        """Return whether a client has raised the error."""


class Hooks:
    """The calls of the core to the outside; each is None while unused.

    `tap` takes one raw event, laid out as `leveret.trace.events.TABLE` describes.

    `witness` returns the line of the user's code that is waiting for a client. The core calls it when a connection
    opens or a client is refused, and passes the answer to the tap.

    `insight` returns what can be known of an error that a client did not wait for, given product, channel and text.
    """

    __slots__ = ("faults", "insight", "tap", "witness")

    def __init__(
        self,
        tap: Tap | None = None,
        witness: Witness | None = None,
        insight: Callable[[object, int, str], Insight] | None = None,
    ) -> None:
        self.tap = tap
        self.witness = witness
        self.insight = insight
        self.faults = Faults()
