"""A failed test and its broker: what the test asked for, the timeline, and what the broker knows beside its events.

Every step of the walk reads an `Inquiry`, and `say` makes the causes of all of them: from what a cause is about follow
the names that its words leave open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from leveret.story.asked import Asked, said_by
from leveret.story.causes import Cause, slots_of
from leveret.story.entities import ConnectionLife, ConsumerLife, CopyLife, DeliveryLife, Fact, MessageLife, QueueLife
from leveret.story.timeline import Timeline

# The reply code of a connection that an operator, or the test, has closed.
FORCED: Final = 320
# A value that more messages hold says nothing about one of them.
_HOLDERS_MAX: Final = 3
_NO_LETTERS: Final = re.compile(r"\W")


class IdlePolicy(NamedTuple):
    """A policy that applies to no queue, and the queue that another policy has taken from it, if one has."""

    name: str
    pattern: str
    # What it leads dead letters to: the name of an exchange and of a queue, as far as it sets them.
    leads_to: frozenset[str]
    queue: str | None = None
    other: str | None = None


class Ended(NamedTuple):
    """A worker process that ended by itself."""

    name: str
    code: str


@dataclass(slots=True)
class HiddenState:
    """What the broker knows and its events do not show."""

    # The messages that open transactions hold back, with the client that has to commit; and the copies that are
    # settled in such transactions.
    uncommitted: Mapping[int, str] = field(default_factory=dict)
    settled: Mapping[int, str] = field(default_factory=dict)
    # The alarm that blocks each connection, by its number.
    blocked: Mapping[int, str] = field(default_factory=dict)
    # The queues that refused messages because they were full, by message.
    refused: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    is_clock_held: bool = False
    # When the test failed, by the broker's clock; None if only the events say it.
    now: int | None = None
    ended: Sequence[Ended] = ()
    idle_policies: Sequence[IdlePolicy] = ()


class Inquiry:
    """What a test asked for, and what its broker shows of it. `began` is the place at which the test began."""

    def __init__(self, timeline: Timeline, asked: Asked, state: HiddenState, began: int = 0) -> None:
        self.timeline: Final = timeline
        self.asked: Final = asked
        self.state: Final = state
        self.began: Final = began
        self.lives: Final = [life for life in timeline.messages.values() if life.last.place >= began]
        # The queues that a message of this test reached.
        self.reached: Final = {copy.queue for life in self.lives for copy in life.copies.values()}
        # The queues that fill what was short, as the code of the test says: in the virtual host that it names, if any.
        # The keys of a dictionary that is short may be names of queues too.
        self.fed_by: Final = self._fed_by()
        # These, and those at which the test looked; and those of them to which no message came.
        looked_at = [queue for queue in timeline.queues.values() if queue.name in self.queues]
        self.sought: Final = list(dict.fromkeys((*self.fed_by, *looked_at)))
        self.starved: Final = [queue for queue in self.sought if queue not in self.reached]

    @property
    def now(self) -> int:
        """When the test failed."""
        return self.state.now or self.timeline.now or 0

    @property
    def is_short(self) -> bool:
        """Whether a comparison found less than it expected."""
        asked = self.asked
        counts = [one for one in (asked.count, asked.total) if one is not None]
        counts += asked.counts.values()
        return asked.is_falsy or bool(asked.missing) or any(expected > found for expected, found in counts)

    def _fed_by(self) -> list[QueueLife]:
        texts = self.asked.sources | self.asked.keys
        named = [queue for queue in self.timeline.queues.values() if queue.name in texts]
        named = [queue for queue in named if queue.vhost in texts] or named
        if self.is_short:
            return named
        # What only grows smaller by messages is not short of them.
        return [] if self.asked.total is None or not self.reached.isdisjoint(named) else named

    @property
    def queues(self) -> frozenset[str]:
        """The names of the queues at which the test looked for what it lacks."""
        return frozenset(self.asked.queues) if self.is_short else frozenset()

    @property
    def named_clients(self) -> Iterator[ConnectionLife]:
        """The clients that the comparison names."""
        for connection in self.timeline.connections.values():
            if connection.name and _plain(connection.name) in self.asked.names:
                yield connection

    def consumers_of(self, client: str) -> list[ConsumerLife]:
        """Return the consumers of the clients with this name."""
        return [
            one
            for connection in self.timeline.connections.values()
            if connection.name == client
            for channel in connection.channels.values()
            for one in channel.consumers
        ]

    def queue(self, name: str) -> QueueLife | None:
        """Return the queue of that name in any virtual host."""
        return next((queue for (_, one), queue in self.timeline.queues.items() if one == name), None)

    def holders(self, values: Iterable[object]) -> dict[tuple[type, object], list[MessageLife]]:
        """Return the messages that hold each of these values, by their `key`, unless many hold one."""
        wanted = set(map(key, values))
        found: dict[tuple[type, object], list[MessageLife]] = {}
        for life in self.lives if wanted else ():
            for one in set(map(key, said_by(life))) & wanted:
                found.setdefault(one, []).append(life)
        return {one: lives for one, lives in found.items() if len(lives) <= _HOLDERS_MAX}

    def name(self, connection: ConnectionLife | None) -> str:
        """Return what to call a client."""
        return self.timeline.name(connection)

    def publisher(self, life: MessageLife) -> str | None:
        """Return the name of the client that published a message; None if its publish is unknown."""
        return None if life.published is None else self.name(life.publisher)

    def say(
        self,
        kind: str,
        about: DeliveryLife | CopyLife | MessageLife | ConnectionLife | None,
        *facts: Fact | None,
        **more: object,
    ) -> Cause:
        """Return a cause with the names that its words need of what it is about, and with `more`.

        Without facts, what it is about shows it.
        """
        copy = about.copy if isinstance(about, DeliveryLife) else about
        life = copy.message if isinstance(copy, CopyLife) else copy
        known: dict[str, object] = {}
        if isinstance(life, MessageLife):
            known |= {"message": life.number, "publisher": self.publisher(life)}
        if isinstance(copy, CopyLife):
            known["queue"] = copy.queue.name
        if isinstance(about, DeliveryLife):
            known |= dict.fromkeys(("holder", "by"), self.name(about.connection))
        elif isinstance(about, ConnectionLife):
            known["client"] = self.name(about)
        needed = {*slots_of(kind), "message"}
        values = {name: value for name, value in known.items() if name in needed} | more
        numbers = {name: value for name, value in values.items() if type(value) is int}
        names = {name: value for name, value in values.items() if value is not None and name not in numbers}
        shown = tuple(fact for fact in facts or (_shown_by(about),) if fact is not None)
        return Cause(kind, names, numbers, shown)


def key(value: object) -> tuple[type, object]:
    """Return a value as a key that differs for 1, 1.0 and True."""
    return type(value), value


def _shown_by(about: DeliveryLife | CopyLife | MessageLife | ConnectionLife | None) -> Fact | None:
    match about:
        case DeliveryLife():
            return about.fact
        case CopyLife():
            return about.last
        case MessageLife():
            return about.published
        case _:
            return None if about is None else about.opened


def _plain(name: str) -> str:
    """Return a client's name as a variable would have it."""
    return _NO_LETTERS.sub("_", name.lower())
