"""The states of a conversation, from the protocol header to the last byte, and those of its channels."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of a conversation."""

    HEADER = "header"
    START = "starting"
    SECURE = "securing"
    TUNE = "tuning"
    OPEN = "opening"
    OPENED = "running"
    # The broker has sent connection.close. It handles only close and close-ok.
    CLOSING = "closing"
    # The broker ignores all input. The client closes the socket, or a time limit does.
    ENDING = "ending"


class ChannelState(Enum):
    """The state of a channel."""

    # A method comes next.
    OPEN = "open"
    # The method of a publish has arrived. Only its header and body may follow.
    CONTENT = "content"
    # The broker has sent channel.close. It handles only close, close-ok and a forbidden open.
    CLOSING = "closing"
    # The channel has ended on both sides, and its number is free.
    CLOSED = "closed"
