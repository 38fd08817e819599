"""A schedule: which faults apply at which steps, in order. The empty schedule is the plain run.

The steps are the methods that clients and the broker send, each with a name that means the same in the next run. It
contains nothing that depends on time: the connection's name or else its ordinal, the channel, the direction, the
method, and its ordinal among the same methods there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self

CLIENT_TO_SERVER: Final = "client->server"
SERVER_TO_CLIENT: Final = "server->client"

_TEXT: Final = re.compile(r"conn (.+?) chan (\d+) (client->server|server->client) ([a-z]+\.[a-z-]+) #(\d+)")
THEN: Final = ", then "


@dataclass(frozen=True, slots=True)
class Step:
    """One method on its way, such as `conn 1 chan 1 client->server basic.ack #2`."""

    # The connection's ordinal in its broker, from 1, or its name, with " (2)" for the second of that name.
    connection: int | str
    channel: int
    direction: str
    method: str
    # The ordinal of this method in this direction on this channel, from 1.
    nth: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the step of this name. Raises ValueError if the text is not a step."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a step; write it as in 'conn 1 chan 1 client->server basic.ack #2'")
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
    """A step that occurred in a run."""

    step: Step
    # A short description: a queue, a body.
    about: str
    # The kinds of fault to place here.
    kinds: tuple[str, ...]
    # The kind of fault that applied here.
    applied: str | None = None
    # Whether the message was flagged as redelivered.
    is_redelivered: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """One fault at one step, such as `lost after conn 1 chan 1 client->server basic.ack #2`."""

    kind: str
    step: Step

    @classmethod
    def parse(cls, text: str, kinds: Collection[str]) -> Self:
        """Return the placement of this name. Raises ValueError if the text is not a placement."""
        match = re.fullmatch(r"(.+?) (conn .+)", text.strip())
        if match is None and text.strip().startswith(tuple(kinds)):
            example = "'lost after conn 1 chan 1 client->server basic.ack #1'"
            raise ValueError(f"only={text!r} names no step after the kind of fault; write it as in {example}")
        if match is None or match[1] not in kinds:
            names = ", ".join(map(repr, kinds))
            raise ValueError(f"only={text!r} does not begin with a kind of fault; expected one of {names}")
        return cls(match[1], Step.parse(match[2]))

    def __str__(self) -> str:
        return f"{self.kind} {self.step}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """All the faults of one run."""

    placements: tuple[Placement, ...] = ()

    @classmethod
    def parse(cls, text: str, kinds: Collection[str]) -> Self:
        """Return the schedule of this name, as a report writes it. Raises ValueError if the text is not a schedule."""
        return cls(tuple(Placement.parse(part, kinds) for part in text.split(THEN.strip())))

    def __str__(self) -> str:
        return THEN.join(map(str, self.placements)) or "no fault"
