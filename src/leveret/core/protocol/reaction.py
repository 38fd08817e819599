"""The reaction of a client to an error that it did not wait for: the broker closed its channel because of a publish.

Without confirms, no call of the client waits for an answer to a publish. A client has shown that it read the error if
it then waits for an answer on that channel, or opens a channel after its close-ok. To close the channel or the
connection shows nothing: clients drop the error while they close. If the client is in this process, `Insight` may know
more. If a call may have raised what the client had read, and the user's code leaves no trace of that, the error counts
as seen.
"""

from __future__ import annotations

from typing import Final

from leveret.core.hooks import Insight
from leveret.core.wire.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlowOk,
)

# A client waits for no answer to these.
_UNANSWERED: Final = frozenset(
    method.ID for method in (BasicPublish, BasicAck, BasicNack, BasicReject, ChannelCloseOk, ChannelFlowOk)
)


class Reaction:
    """What one client did after one such error."""

    __slots__ = ("_insight", "_is_closing", "_is_read", "is_seen")

    def __init__(self, insight: Insight) -> None:
        self._insight = insight
        # Whether the client's close-ok has arrived, and whether a close of its own came first.
        self._is_read = False
        self._is_closing = False
        # Whether the code under test has seen the error, as far as the broker can know.
        self.is_seen = insight.is_certain_to_be_seen

    def sent(self, method_id: int) -> None:
        """Note a method on the channel that the broker has closed. After close-ok it ends the connection."""
        if method_id == ChannelCloseOk.ID:
            self._is_read = True
        elif method_id == ChannelClose.ID:
            # A client that closes a channel after close-ok may have raised the error before.
            self._is_closing = self._is_closing or not self._is_read
            self.is_seen = self.is_seen or self._insight.is_raised_by_close()
        elif method_id not in _UNANSWERED:
            self.is_seen = True

    def opened_channel(self) -> None:
        """Note that the client has opened a channel on the same connection."""
        if self._is_read and not self._insight.is_opened_by_client_itself():
            self.is_seen = True

    def ended(self) -> None:
        """Note that the connection or the test ends."""
        if not self._is_closing and not self.is_seen:
            self.is_seen = (self._is_read and self._insight.may_be_cleared) or self._insight.was_raised()
