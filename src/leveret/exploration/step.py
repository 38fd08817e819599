"""Steps: the methods that pass between clients and the broker, each named so that it means the same in the next run.

A step is named by what does not depend on time: the connection by the name its client gave it, else by its ordinal; the
channel, who sent it, the method, and which of its kind it is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

CLIENT_TO_SERVER: Final = "client->server"
SERVER_TO_CLIENT: Final = "server->client"

_TEXT: Final = re.compile(r"conn (.+?) chan (\d+) (client->server|server->client) ([a-z]+\.[a-z-]+) #(\d+)")


@dataclass(frozen=True, slots=True)
class Step:
    """This is one method on its way, as `conn 1 chan 1 client->server basic.ack #2`."""

    # The connection's ordinal in its broker, from 1; or its name, with " (2)" for the second of that name.
    connection: int | str
    channel: int
    direction: str
    method: str
    # Which of this method, this way, on this channel; from 1.
    nth: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The step of this name; ValueError for what is none."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no step; one is 'conn 1 chan 1 client->server basic.ack #2'")
        connection, channel, direction, method, nth = match.groups()
        return cls(int(connection) if connection.isdecimal() else connection, int(channel), direction, method, int(nth))

    @property
    def is_from_client(self) -> bool:
        """Whether a client sends it."""
        return self.direction == CLIENT_TO_SERVER

    def __str__(self) -> str:
        return f"conn {self.connection} chan {self.channel} {self.direction} {self.method} #{self.nth}"


@dataclass(slots=True)
class Seen:
    """This is a step that came in a run."""

    step: Step
    # What it was about, in a few words: a queue, a body.
    about: str
    # The kinds of fault to place here.
    kinds: tuple[str, ...]
    # The kind that struck here.
    struck: str | None = None
    # Whether its message had been delivered before.
    is_redelivered: bool = False
