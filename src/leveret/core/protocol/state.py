"""The states of a conversation, from the protocol header to the last byte, and those of its channels."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of a conversation."""

    HEADER = "header"
    START = "starting"
    TUNE = "tuning"
    OPEN = "opening"
    OPENED = "running"
    # The broker has sent connection.close. It handles only close and close-ok.
    CLOSING = "closing"
    # The client has closed the conversation. The broker handles only another close and close-ok, as RabbitMQ does.
    CLOSED = "closed"
    # The broker ignores all input. The client closes the socket, or a time limit does.
    ENDING = "ending"

    @property
    def is_over(self) -> bool:
        """Whether nothing but the end of the socket is left."""
        return self in (State.CLOSED, State.ENDING)

    @property
    def is_ending(self) -> bool:
        """Whether one side has closed the conversation."""
        return self is State.CLOSING or self.is_over


class ChannelState(Enum):
    """The state of a channel."""

    # The client has begun a publish without opening the channel.
    UNOPENED = "unopened"
    # A method comes next.
    OPEN = "open"
    # The method of a publish has arrived. Only its header and body may follow.
    CONTENT = "content"
    # The broker has sent channel.close. Of whole methods it handles only close, close-ok and a forbidden open.
    CLOSING = "closing"
    # The channel has ended on both sides, and its number is free.
    CLOSED = "closed"
