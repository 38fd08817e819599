"""The fault that ends a connection after a step: what follows on it, in either direction, no longer arrives."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from leveret.faults import Occasion, ResetPeer

if TYPE_CHECKING:
    from leveret.core.protocol.connection import Connection

# How long the client may take to read what it was sent, in real time. A reset would discard it.
_READ_US: Final = 100_000


class LostAfter(ResetPeer):
    """A connection that is lost once the broker has handled a method, or once the client has read one."""

    def __init__(self) -> None:
        super().__init__("after")

    def apply(self, occasion: Occasion) -> bool:
        """Reset the connection, at the latest when the client has had time to read. `Watcher` drops what follows."""
        if occasion.point == "method":
            return super().apply(occasion)
        occasion.proceed()
        assert occasion.connection is not None
        occasion.call_in_real_time(_READ_US, partial(_reset, occasion.connection))
        return True


def _reset(connection: Connection) -> None:
    if not connection.is_reset:
        connection.reset()
