"""Where a conversation stands, from the protocol header to the last octet, and where one of its channels does."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where the conversation stands."""

    HEADER = "header"
    START = "starting"
    SECURE = "securing"
    TUNE = "tuning"
    OPEN = "opening"
    OPENED = "running"
    # The broker has sent connection.close: only close and close-ok are looked at.
    CLOSING = "closing"
    # Nothing is looked at any more: the client closes the socket, or a limit does.
    ENDING = "ending"


class ChannelState(Enum):
    """Where a channel stands."""

    # It takes a method next.
    OPEN = "open"
    # The method of a publish has come, and its header and body have not: only they may follow.
    CONTENT = "content"
    # The broker has sent channel.close; only close, close-ok and a forbidden open are looked at.
    CLOSING = "closing"
    # Both sides are done with it, and its number is free.
    CLOSED = "closed"
