"""What the events of a broker are about, each with the facts that show it and its links to the others.

A `Fact` is an event and its place among those of its broker: two facts may have one instant, since a test may hold the
clock, but never one place. Entities are made by a `Timeline`. Their beginnings may be missing, because a broker forgets
its oldest events and a file may begin late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from leveret.story.words import AGAIN, BY_REASON, READY, UNACKED, end_of, filled
from leveret.trace import events
from leveret.trace.caller import Caller
from leveret.trace.events import Event, EventKind, RawEvent, TracedMessage, as_python
from leveret.wording import place_text

# A virtual host, and the name of a queue or an exchange in it.
Place = tuple[str, str]
# A shorter time says only how fast the machine is.
NOTABLE_US: Final = 100_000
# A client that closes its connection so soon after it cancelled did both at once, in microseconds.
_SOON: Final = 1_000_000
Role = Literal["publisher", "consumer"]
_STREAM: Final = "stream"


class Fact(Event):
    """An event with its place among those of its broker."""

    __slots__ = ("place",)

    # Hot: once per event, so it does by itself what an event does.
    def __init__(self, raw: RawEvent, place: int) -> None:
        self.raw = raw
        self.kind = cast("EventKind", raw[0])
        self.at = cast("int", raw[1])
        self.place = place


@dataclass(slots=True, eq=False)
class ConnectionLife:
    """A connection, as the client that opened it names it."""

    number: int
    opened: Fact | None = None
    closed: Fact | None = None
    channels: dict[int, ChannelLife] = field(default_factory=dict)
    roles: dict[Role, None] = field(default_factory=dict)
    # The errors that it got.
    refusals: list[Fact] = field(default_factory=list)
    # The faults that hit it.
    faults: list[Fact] = field(default_factory=list)
    # What it last did by itself: open a channel, declare, publish, consume, settle.
    last_act: Fact | None = None

    @property
    def name(self) -> str:
        """The client's own name for it, or its product; "" if it gave none."""
        return "" if self.opened is None else self.opened.client or ""

    @property
    def user(self) -> str:
        """The user who logged in."""
        return "" if self.opened is None else self.opened.user or ""

    @property
    def opener(self) -> Caller | None:
        """The line of the user's code that waited for it."""
        return None if self.opened is None else self.opened.opener

    @property
    def reason(self) -> str | None:
        """Why it closed; None if the client did it in good order, or it is open."""
        return None if self.closed is None else self.closed.reason

    @property
    def is_lost(self) -> bool:
        """Whether it broke, or the broker closed it."""
        return self.reason is not None

    @property
    def is_client(self) -> bool:
        """Whether a client opened it, and not the test itself."""
        return self.number > 0

    @property
    def short(self) -> str:
        """Its number and its name: "c3 (web)"."""
        return f"{place_text(self.number)} ({self.name})" if self.name else place_text(self.number)


@dataclass(slots=True, eq=False)
class ChannelLife:
    """A channel of a connection: its limits, its consumers and what it was handed."""

    connection: ConnectionLife
    number: int
    opened: Fact | None = None
    closed: Fact | None = None
    # The limits that its client set, in order.
    limits: list[Fact] = field(default_factory=list)
    consumers: list[ConsumerLife] = field(default_factory=list)
    # The deliveries that it holds, by their tag.
    held: dict[object, DeliveryLife] = field(default_factory=dict)

    @property
    def shared_prefetch(self) -> int:
        """How many deliveries all of its consumers may hold together; 0 if that has no limit."""
        shared = next((fact for fact in reversed(self.limits) if fact.is_global), None)
        return 0 if shared is None else shared.count


@dataclass(slots=True, eq=False)
class ConsumerLife:
    """A consumer of a queue, from its consume until it was cancelled or its channel ended."""

    queue: QueueLife
    channel: ChannelLife
    tag: object
    since: Fact
    until: Fact | None = None
    deliveries: list[DeliveryLife] = field(default_factory=list)

    @property
    def arguments(self) -> Mapping[str, object]:
        """The arguments with which it began to consume."""
        return arguments_of(self.since)

    @property
    def prefetch(self) -> int:
        """How many deliveries it may hold; 0 if it has no limit of its own."""
        return self.since.prefetch_count or 0

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.until is not None

    @property
    def departure(self) -> Fact | None:
        """What ended it; None if nothing did, or it went with its queue.

        Clients cancel and close their channels before they close a connection, which says more.
        """
        left = self.until
        for closed in (self.channel.closed, self.channel.connection.closed):
            if left is not None and closed is not None and closed.at <= left.at + _SOON:
                left = closed
        return None if left is None or left.kind == events.QUEUE_DELETE else left

    @property
    def held(self) -> list[DeliveryLife]:
        """The deliveries that it has not settled, oldest first."""
        return [one for one in self.deliveries if one.is_held]


@dataclass(slots=True, eq=False)
class ExchangeLife:
    """An exchange, and the bindings that lead from it."""

    vhost: str
    name: str
    declared: list[Fact] = field(default_factory=list)
    deleted: Fact | None = None
    bindings: list[BindingLife] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class BindingLife:
    """A binding, from a bind until it was unbound or one of its ends was deleted."""

    source: Place
    destination: Place
    destination_kind: str
    routing_key: str
    arguments: Mapping[str, object]
    since: Fact
    until: Fact | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes it another binding than the others: its ends, key and arguments."""
        arguments = repr(sorted(self.arguments.items())) if self.arguments else ""
        return self.source, self.destination_kind, self.destination, self.routing_key, arguments


@dataclass(slots=True, eq=False)
class QueueLife:
    """A queue, until it is deleted: another of that name is another."""

    vhost: str
    name: str
    declared: list[Fact] = field(default_factory=list)
    deleted: Fact | None = None
    # The connection that owns it, if it is deleted with a connection.
    owner: ConnectionLife | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    consumers: list[ConsumerLife] = field(default_factory=list)
    # The copies that wait, and those that are handed out, by their numbers.
    ready: dict[int, CopyLife] = field(default_factory=dict)
    unacked: dict[int, CopyLife] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Its virtual host and its name."""
        return self.vhost, self.name

    @property
    def type(self) -> str:
        """Its type, as it was declared."""
        return str(self.arguments.get("x-queue-type", "classic"))

    @property
    def is_stream(self) -> bool:
        """Whether it keeps what it hands out."""
        return self.arguments.get("x-queue-type") == _STREAM

    @property
    def living_consumers(self) -> list[ConsumerLife]:
        """The consumers that it has now."""
        return [one for one in self.consumers if one.until is None]


@dataclass(slots=True, eq=False)
class DeliveryLife:
    """A delivery of a copy to a consumer, or to a client that fetched it."""

    copy: CopyLife
    fact: Fact
    channel: ChannelLife | None
    consumer: ConsumerLife | None
    # What its client did with it, and what ended it: the same for an ack; else a requeue, a dead letter, a drop.
    settled: Fact | None = None
    ended: Fact | None = None

    @property
    def is_held(self) -> bool:
        """Whether its client may still settle it."""
        return self.ended is None

    @property
    def is_left(self) -> bool:
        """Whether the end of its channel ended it."""
        return self.ended is not None and self.ended.get("reason") == "channel_closed"

    @property
    def connection(self) -> ConnectionLife | None:
        """The connection of its client; None is the test itself."""
        return None if self.channel is None else self.channel.connection

    @property
    def requeued(self) -> Fact | None:
        """What brought the copy back to its queue, if that ended it."""
        return self.ended if self.ended is not None and self.ended.kind in events.REQUEUES else None


@dataclass(slots=True, eq=False)
class CopyLife:
    """The life of one message in one queue."""

    number: int
    queue: QueueLife
    message: MessageLife
    # Everything that happened to it, in order, and its deliveries.
    facts: list[Fact] = field(default_factory=list)
    deliveries: list[DeliveryLife] = field(default_factory=list)
    requeue_count: int = 0
    # The number of the copy that it is a dead letter of, that copy, and the dead letters of this one.
    source_number: int | None = None
    source: CopyLife | None = None
    letters: list[CopyLife] = field(default_factory=list)
    # How it stands: READY, AGAIN, UNACKED, or how it ended, as `words.ENDS` names it.
    state: str = READY

    @property
    def is_ready(self) -> bool:
        """Whether it waits in its queue."""
        return self.state in (READY, AGAIN)

    @property
    def is_dead_lettered(self) -> bool:
        """Whether it was dead-lettered."""
        return self.state in events.DEATHS

    @property
    def last(self) -> Fact:
        """What happened to it last."""
        return self.facts[-1]

    @property
    def arrivals(self) -> list[str]:
        """The queues in which its dead letters arrived."""
        return [letter.queue.name for letter in self.letters]

    @property
    def stand(self) -> str:
        """How what happened to it last left it: as its state, but a copy that stays in a stream may be acked too."""
        kind = self.last.kind
        if kind in events.SETTLING:
            return ended_as(self.last)
        return UNACKED if kind in events.DELIVERIES else self.state


@dataclass(slots=True, eq=False)
class MessageLife:
    """The life of one message: its publish, its copies in order, and what happened to it outside any queue."""

    number: int
    vhost: str
    message: TracedMessage
    published: Fact | None = None
    # Who published it; None is the test itself, or unknown.
    publisher: ConnectionLife | None = None
    copies: dict[int, CopyLife] = field(default_factory=dict)
    # The publish, and whether it was returned, dropped, confirmed or nacked.
    facts: list[Fact] = field(default_factory=list)
    # Why it reached no queue, if it did not: its return says more than its drop.
    lost: Fact | None = None
    # How the broker answered its publisher.
    answer: Fact | None = None

    @property
    def last_ends(self) -> list[CopyLife]:
        """The copies that say how it stands: not those that live on as their dead letters."""
        last = [copy for copy in self.copies.values() if not (copy.is_dead_lettered and copy.letters)]
        return last or list(self.copies.values())[-1:]

    @property
    def last(self) -> Fact:
        """What happened to it last."""
        return max((*self.facts[-1:], *(copy.last for copy in self.copies.values())), key=lambda fact: fact.place)

    def has_reached(self, queue: str | None) -> bool:
        """Return whether a copy of it was ever in a queue of this name."""
        return any(copy.queue.name == queue for copy in self.copies.values())

    def property(self, name: str) -> object:
        """Return one of its properties as an ordinary value; None if it was not set."""
        return as_python(getattr(self.message.properties, name, None))


def arguments_of(fact: Fact) -> Mapping[str, object]:
    """Return the arguments with which a fact declares, binds or consumes; none if they are no table."""
    given = as_python(fact.arguments)
    return given if isinstance(given, Mapping) else {}


def end_text(stand: str, slot: Callable[[str], str], *, is_drawn: bool = False) -> str:
    """Return how a copy stands, as a clause about the message; `slot` fills what the clause leaves open."""
    return filled(end_of(stand).clause, lambda name: stand if name == "kind" else slot(name), is_drawn=is_drawn)


def arrival_text(copy: CopyLife) -> str:
    """Return where the dead letter of a copy went."""
    if not copy.arrivals:
        return f"to exchange {copy.last.get('exchange')!r}, which led to no queue"
    return f"to {', '.join(map(repr, copy.arrivals))}"


def successions(connections: Iterable[ConnectionLife]) -> list[list[ConnectionLife]]:
    """Return the connections that one client opened one after the other: of one name, user and role."""
    found: list[list[ConnectionLife]] = []
    named: dict[tuple[str, str], list[list[ConnectionLife]]] = {}
    for one in connections:
        alike = named.setdefault((one.name, one.user), []) if one.name else []
        known = next((before for before in alike if _follows(one, before)), None)
        if known is None:
            found.append([one])
            alike.append(found[-1])
        else:
            known.append(one)
    return found


def _follows(one: ConnectionLife, before: Iterable[ConnectionLife]) -> bool:
    *_, last = before
    if last.closed is None or one.opened is None or last.closed.at > one.opened.at:
        return False
    # What did nothing yet may be of any role.
    roles = next((known.roles for known in before if known.roles), {})
    return not one.roles or not roles or one.roles == roles


def ended_as(fact: Fact) -> str:
    """Return how a copy stands after a fact that settled or ended it."""
    return BY_REASON.get((fact.kind, fact.get("reason")), fact.kind)


def way_of(copy: CopyLife) -> Iterator[CopyLife]:
    """Yield a copy and those that it is the dead letter of, the youngest first."""
    step: CopyLife | None = copy
    while step is not None:
        yield step
        step = step.source
