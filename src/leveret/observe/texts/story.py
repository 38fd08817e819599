"""The events of a test that matter, as lines: what happened to its messages, and what went wrong around them.

Connections, channels, declarations and the like are set-up. They are counted in a single line, which is also the legend
of the short names of clients: c1 is the first connection, c1/ch2 its second channel. Times are seconds since the test
began, by the broker's clock. A message is described where it is first named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from leveret.story import words
from leveret.story.facts import BY_SOMEONE, Fact
from leveret.story.words import Names, channel_text
from leveret.trace import events
from leveret.trace.caller import Caller
from leveret.trace.events import Event, RawEvent, named
from leveret.wording import count_text, place_text

# How many events are shown, and how many of them at most are those of the messages that the failure is about.
_SHOWN: Final = 10
_ABOUT: Final = 7
# How many events of a message the text of a failure says in its own words.
_DESCRIBED: Final = 2
_NAMED: Final = 6
# The most characters in a line.
_WIDTH: Final = 160

# What a test sets up besides connections, in the order in which the counts are named, and the fields that identify
# each: a client that connects again declares the same queues again.
_SET_UP: Final = {
    events.EXCHANGE_DECLARE: ("exchange", ("vhost", "exchange")),
    events.QUEUE_DECLARE: ("queue", ("vhost", "queue")),
    events.BIND: ("binding", ("vhost", "exchange", "destination_kind", "destination", "routing_key", "arguments")),
    events.CONSUME: ("consumer", ("conn", "chan", "consumer")),
}
# Kinds that never get a line: they are set-up, follow from another event, or say how the test is run.
_UNTOLD: Final = frozenset(
    {
        *(events.CONN_OPEN, events.CHAN_OPEN, events.EXCHANGE_DECLARE, events.QUEUE_DECLARE, events.QOS),
        *(events.CONFIRMED, *events.ARRIVALS, *events.REFUSING),
        *(events.CALLED, *events.MARKS),
    }
)
# Kinds that matter only with a reason: without one a client did it in good order.
_WITH_REASON: Final = frozenset({events.CONN_CLOSE, events.CHAN_CLOSE, events.CANCEL})
# Kinds that belong to the set-up until the first message is published.
_LATE: Final = frozenset({events.BIND, events.CONSUME})
# Reasons of a queue that was deleted with its connection.
_WITH_CONNECTION: Final = ("exclusive", "auto_delete")


class Told(NamedTuple):
    """An event that matters, with what other events say about it."""

    event: Event
    # The test's line, if the test did it.
    caller: Caller | None
    # The connection and channel that settled the copy, if that led to this event.
    settler: tuple[int | None, int | None] | None
    # The queues that the message went to.
    queues: tuple[str, ...]
    # How often this event and the one before it happened again, one after the other.
    repeats: int = 0

    @property
    def sign(self) -> tuple[object, ...]:
        """What the event has in common with others that differ only in their time."""
        event = self.event
        return (event.kind, *(event.get(name) for name in ("msg", "conn", "queue", "reason")))


class Story:
    """The events of the current test, or of all that is recorded if no test has begun."""

    def __init__(self, raw_events: Sequence[RawEvent]) -> None:
        began = events.began_at(raw_events)
        self._raw: Final = raw_events[began:]
        self._began_at: Final = Event(raw_events[began]).at if raw_events else 0
        self._clients: Final = clients_of(raw_events)
        self._told: Final = _folded(list(_told(self._raw)))
        # The message that each is about.
        self._ids: Final = [told.event.get("msg") for told in self._told]

    def set_up(self, closed: Mapping[int, str]) -> str:
        """Return what the test has set up, with the names of its connections; `closed` says what became of some."""
        seen: dict[str, set[str]] = {kind: set() for kind in _SET_UP}
        for event in (Event(raw) for raw in self._raw if raw[0] in seen):
            seen[event.kind].add(repr([event.get(field) for field in _SET_UP[event.kind][1]]))
        named = [f"{place_text(number)} {name}{closed.get(number, '')}" for number, name in self._clients.items()]
        more = [f"{len(named) - _NAMED} more"] if len(named) > _NAMED else []
        parts = [count_text(len(names), _SET_UP[kind][0]) for kind, names in seen.items() if names]
        clients = [", ".join(named[:_NAMED] + more)] if named else []
        return "; ".join(filter(None, [*clients, ", ".join(parts)])) or "none"

    def title(self, about: Sequence[int] = (), *, has_dropped: bool) -> str:
        """Return the title of the lines, with the messages `about` whose events `lines` leaves out."""
        count = len(self._told)
        which = f"last {_SHOWN} of {count}{'+' if has_dropped else ''} events" if count > _SHOWN else "events"
        ids = self._ids
        left_out = ", ".join(f"#{one}" for one in about if 0 < ids.count(one) <= _DESCRIBED)
        return f"{which}, seconds since the test began{f' ({left_out}: see above)' if left_out else ''}:"

    def lines(self, about: Sequence[int] = ()) -> list[str]:
        """Return the last events that matter, oldest first; those of the messages `about` are chosen first.

        The caller has described these messages. If that says everything about one, its events are left out.
        """
        ids = self._ids
        own = [at for at, one in enumerate(ids) if one in about and ids.count(one) > _DESCRIBED][-_ABOUT:]
        others = [at for at, one in enumerate(ids) if one not in about]
        chosen = sorted(own + others[len(others) - min(len(others), _SHOWN - len(own)) :])
        known = dict.fromkeys(about)
        return [self._line(self._told[at], known) for at in chosen]

    def _line(self, told: Told, known: dict[int, None]) -> str:
        event = told.event
        seconds = (event.at - self._began_at) / 1_000_000
        line = f"{seconds:.3f} {words.told(event, _Line(told, _named(event, known)))}".partition("\n")[0]
        line += f" (and both {count_text(told.repeats, 'more time')})" if told.repeats else ""
        return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."


def clients_of(raw_events: Sequence[RawEvent]) -> dict[int, str]:
    """Return the names of the clients that have connected, by the number of the connection."""
    opened = (Event(raw) for raw in raw_events if raw[0] == events.CONN_OPEN)
    return {event.conn: event.client for event in opened if event.conn is not None}


def _told(raw_events: Sequence[RawEvent]) -> Iterator[Told]:
    """Yield the events that matter, each with what the others say about it."""
    arrivals = _arrivals(raw_events)
    dead_lettered = {Event(raw).copy for raw in raw_events if raw[0] in events.DEATHS}
    settlers: dict[int | None, tuple[int | None, int | None]] = {}
    returned: dict[int, None] = {}
    refused: dict[tuple[int | None, int | None], None] = {}
    caller: Caller | None = None
    has_published = False
    for raw in raw_events:
        event = Event(raw)
        kind = event.kind
        if kind == events.CALLED:
            caller = event.caller
        elif kind in events.REFUSING:
            settlers[event.copy] = (event.conn, event.chan)
        elif kind in events.RETURNS:
            returned[event.message.id] = None
        elif kind == events.REFUSED:
            refused[event.conn, event.chan] = None
        has_published = has_published or kind == events.PUBLISHED
        if not _is_told(event, has_published=has_published):
            continue
        if kind in events.LOSSES and event.get("copy") in dead_lettered:
            continue
        if kind in events.LOSSES and kind not in events.RETURNS and event.copy is None and event.message.id in returned:
            continue
        if kind in (events.CHAN_CLOSE, events.CONN_CLOSE) and (event.conn, event.get("chan")) in refused:
            continue
        has_left = kind == events.PUBLISHED or kind in events.DEATHS
        queues = arrivals.get((event.get("msg"), event.get("copy")), ()) if has_left else ()
        yield Told(event, caller, settlers.get(cast("int | None", event.get("copy"))), tuple(queues))


def _folded(told: list[Told]) -> list[Told]:
    """Return the events with every pair that comes again and again, such as delivery and requeue, once."""
    folded: list[Told] = []
    signs, last = [one.sign for one in told], list[tuple[object, ...]]()
    at = 0
    while at < len(told):
        if len(last) == 2 and last == signs[at : at + 2]:
            folded[-1] = folded[-1]._replace(repeats=folded[-1].repeats + 1)
            at += 2
        else:
            folded.append(told[at])
            last = [*last[-1:], signs[at]]
            at += 1
    return folded


def _is_told(event: Event, *, has_published: bool) -> bool:
    kind = event.kind
    if kind in _UNTOLD or (kind in _LATE and not has_published):
        return False
    if kind in _WITH_REASON:
        return event.reason is not None
    if kind == events.ACKED:
        return event.reason != events.NO_ACK
    return kind != events.QUEUE_DELETE or event.reason not in _WITH_CONNECTION


def _arrivals(raw_events: Sequence[RawEvent]) -> dict[tuple[object, object], list[str]]:
    """Return the queues in which messages arrived, by message and by the copy that died, None for the publish."""
    arrivals: dict[tuple[object, object], list[str]] = {}
    for event in (Event(raw) for raw in raw_events if raw[0] in events.ARRIVALS):
        arrivals.setdefault((event.message.id, event.src_copy), []).append(str(event.queue))
    return arrivals


def _named(event: Event, known: dict[int, None]) -> str:
    """Return the message of an event: its number, and where it is first named what it is."""
    if event.kind not in events.ABOUT_MESSAGES:
        return ""
    message = event.message
    if message.id in known:
        return f"#{message.id}"
    known[message.id] = None
    return named(message)


class _Line(Names):
    """The names in a line: a message with its content where it is first named, and the test with its line."""

    def __init__(self, told: Told, message: str) -> None:
        self._told: Final = told
        self._message: Final = message

    def message(self, fact: Fact) -> str:
        """Return the message of an event."""
        return self._message

    def who(self, fact: Fact) -> str:
        """Return who did it, or settled the copy so that it happened."""
        if fact.kind not in BY_SOMEONE:
            return "" if self._told.settler is None else channel_text(*self._told.settler)
        who = super().who(fact)
        if not who or fact.get("conn") is not None or self._told.caller is None:
            return who
        return f"the test ({self._told.caller.file})"

    def target(self, fact: Fact) -> str:
        """Return the queues that the message went to."""
        if self._told.queues:
            return f"to {', '.join(map(repr, self._told.queues))}"
        return f"to exchange {fact.get('exchange')!r}, which led to no queue" if fact.kind in events.DEATHS else ""
