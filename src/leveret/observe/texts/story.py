"""The events of a test that matter, as lines: what happened to its messages, and what went wrong around them.

Connections, channels, declarations and the like are set-up. They are counted in a single line, which is also the legend
of the short names of clients: c1 is the first connection, c1/ch2 its second channel. Times are seconds since the test
began, by the broker's clock. A message is described where it is first named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from leveret.story import words
from leveret.story.entities import CopyLife, Fact
from leveret.story.timeline import Timeline
from leveret.story.words import Names, channel_text
from leveret.trace import events
from leveret.trace.events import Event, named
from leveret.wording import count_text, place_text

# How many events are shown, and how many of them at most are those of the messages that the failure is about.
_SHOWN: Final = 10
_ABOUT: Final = 7
# How many events of a message the text of a failure says in its own words.
_DESCRIBED: Final = 2
# How many clients are named.
_NAMED: Final = 6
# The most characters in a line.
_WIDTH: Final = 160

# What a test sets up besides connections, in the order in which the counts are named, and the fields that identify
# each: a client that connects again declares the same queues again. Of consumers, only those that are left count.
_SET_UP: Final = {
    events.EXCHANGE_DECLARE: ("exchange", ("vhost", "exchange")),
    events.QUEUE_DECLARE: ("queue", ("vhost", "queue")),
    events.BIND: ("binding", ("vhost", "exchange", "destination_kind", "destination", "routing_key", "arguments")),
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
    """A fact that matters, and how often it and the one before it happened again, one after the other."""

    fact: Fact
    repeats: int = 0

    @property
    def sign(self) -> tuple[object, ...]:
        """What the fact has in common with others that differ only in their time."""
        fact = self.fact
        return fact.kind, *map(fact.get, ("msg", "conn", "queue", "reason"))


class Story:
    """What a timeline shows of the current test, or all of it if no test has begun."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline: Final = timeline
        self._recent: Final = timeline.recent
        self._began_at: Final = self._recent[0].at if self._recent else 0
        self._told: Final = _folded(list(map(Told, _told(timeline))))
        # The message that each is about.
        self._ids: Final = [told.fact.get("msg") for told in self._told]

    def set_up(self, closed: Mapping[int, str]) -> str:
        """Return what the test has set up, with the names of its connections; `closed` says what became of some."""
        seen: dict[str, set[str]] = {kind: set() for kind in _SET_UP}
        for fact in self._recent:
            if fact.kind in seen:
                seen[fact.kind].add(repr([fact.get(field) for field in _SET_UP[fact.kind][1]]))
        began = self._timeline.began
        named = [
            f"{place_text(one.number)} {one.opened.client}{closed.get(one.number, '')}"
            for one in self._timeline.connections.values()
            if one.opened is not None and (one.closed is None or one.closed.place >= began)
        ]
        more = [f"{len(named) - _NAMED} more"] if len(named) > _NAMED else []
        parts = [count_text(len(names), _SET_UP[kind][0]) for kind, names in seen.items() if names]
        consumers = [one for queue in self._timeline.queues.values() for one in queue.living_consumers]
        count = sum(one.since.place >= began for one in consumers)
        parts += [count_text(count, "consumer")] if count else []
        clients = [", ".join(named[:_NAMED] + more)] if named else []
        return "; ".join(filter(None, [*clients, ", ".join(parts)])) or "none"

    def title(self, about: Sequence[int] = (), *, has_dropped: bool) -> str:
        """Return the title of the lines, with the messages `about` whose events `lines` leaves out."""
        count = len(self._told)
        which = f"last {_SHOWN} of {count}{'+' if has_dropped else ''} events" if count > _SHOWN else "events"
        left_out = self.left_out(about)
        return f"{which}, seconds since the test began{f' ({left_out})' if left_out else ''}:"

    def left_out(self, about: Sequence[int]) -> str:
        """Return that the events of some of the messages `about` stand above; "" if `lines` leaves none out."""
        named = ", ".join(f"#{one}" for one in about if 0 < self._ids.count(one) <= _DESCRIBED)
        return f"{named}: see above" if named else ""

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
        fact = told.fact
        seconds = (fact.at - self._began_at) / 1_000_000
        names = _Line(self._timeline, _named(fact, known))
        line = f"{seconds:.3f} {words.told(fact, names)}".partition("\n")[0]
        line += f" (and both {count_text(told.repeats, 'more time')})" if told.repeats else ""
        return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."


def _told(timeline: Timeline) -> Iterator[Fact]:
    """Yield the facts that matter."""
    has_published = False
    # An error has a line of its own, so the end of its channel or connection needs none.
    refused = {(fact.conn, fact.chan): fact.place for fact in reversed(timeline.refusals)}
    # One that a client gets again and again is shown where it got it last.
    latest = {(fact.client, fact.text): fact.place for fact in timeline.refusals}
    for fact in timeline.recent:
        kind = fact.kind
        has_published = has_published or kind == events.PUBLISHED
        if not _is_told(fact, has_published=has_published):
            continue
        if kind in events.LOSSES and _is_told_by_another(timeline, fact):
            continue
        if kind == events.REFUSED and latest[fact.client, fact.text] != fact.place:
            continue
        is_end = kind in (events.CHAN_CLOSE, events.CONN_CLOSE)
        if is_end and refused.get((fact.conn, fact.chan), fact.place) < fact.place:
            continue
        yield fact


def _is_told_by_another(timeline: Timeline, fact: Fact) -> bool:
    """Return whether a dead letter followed a loss, or the message was returned too."""
    copy = _copy_of(timeline, fact)
    if copy is not None:
        return copy.is_dead_lettered
    lost = timeline.messages[fact.message.id].lost
    return lost is not None and lost is not fact and lost.kind in events.RETURNS


def _copy_of(timeline: Timeline, fact: Fact) -> CopyLife | None:
    number = fact.get("copy")
    return timeline.copies[number] if isinstance(number, int) else None


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


def _is_told(fact: Fact, *, has_published: bool) -> bool:
    kind = fact.kind
    if kind in _UNTOLD or (kind in _LATE and not has_published):
        return False
    if kind in _WITH_REASON:
        return fact.reason is not None
    if kind == events.ACKED:
        return fact.reason != events.NO_ACK
    return kind != events.QUEUE_DELETE or fact.reason not in _WITH_CONNECTION


def _named(fact: Fact, known: dict[int, None]) -> str:
    """Return the message of a fact: its number, and where it is first named what it is."""
    if fact.kind not in events.ABOUT_MESSAGES:
        return ""
    message = fact.message
    if message.id in known:
        return f"#{message.id}"
    known[message.id] = None
    return named(message)


class _Line(Names):
    """The names in a line: a message with its content where it is first named, and the test with its line."""

    def __init__(self, timeline: Timeline, message: str) -> None:
        self._timeline: Final = timeline
        self._message: Final = message

    def message(self, fact: Event) -> str:
        """Return the message of a fact."""
        return self._message

    def who(self, fact: Event) -> str:
        """Return who did it, or settled the copy so that it happened."""
        assert isinstance(fact, Fact)
        if fact.kind not in events.BY_SOMEONE:
            return self._settler(fact)
        who, call = super().who(fact), self._timeline.call_before(fact)
        if not who or fact.conn is not None or call is None or call.place < self._timeline.began or call.caller is None:
            return who
        return f"the test ({call.caller.file})"

    def target(self, fact: Event) -> str:
        """Return the queues that the message went to."""
        assert isinstance(fact, Fact)
        queues: list[str] = []
        copy = _copy_of(self._timeline, fact)
        if copy is not None and fact.kind in events.DEATHS:
            queues = copy.arrivals
        elif fact.kind == events.PUBLISHED:
            copies = self._timeline.messages[fact.message.id].copies.values()
            queues = [one.queue.name for one in copies if one.source_number is None]
        if queues:
            return f"to {', '.join(map(repr, queues))}"
        return f"to exchange {fact.exchange!r}, which led to no queue" if fact.kind in events.DEATHS else ""

    def _settler(self, fact: Fact) -> str:
        """Return who refused the last delivery of a copy before a fact."""
        copy = _copy_of(self._timeline, fact)
        before = (one for one in reversed(copy.deliveries if copy else []) if one.fact.place < fact.place)
        settled = next((one.settled for one in before), None)
        is_by = settled is not None and settled.kind in events.REFUSING
        return channel_text(settled.conn, settled.chan) if settled is not None and is_by else ""
