"""A reading: what one broker did during a test, as rows, wherever it was recorded.

A row has the columns of a trace file. Its `attrs` are a dictionary instead of text, and `attrs["body"]` holds the bytes
of a body. This module reads the events of a live broker; `trace_source` reads a file. Everything above sees rows only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from leveret.trace import events
from leveret.trace.events import Event, RawEvent
from leveret.trace.rows import FileNumbering, Rows

if TYPE_CHECKING:
    from leveret.observe.views.views import ExchangeView, QueueFacts
    from leveret.story.causes import Cause
    from leveret.trace.redaction import Redaction

# The most events of a test on a running broker that a page shows: as many as are read in some seconds.
_EVENTS_MAX: Final = 20_000
PageRow = dict[str, Any]
# A row as a page draws it, as a value of JSON.
StoryEvent = dict[str, Any]


@dataclass(slots=True)
class Fault:
    """A fault that the test added: its text, on what it waits, its name, and how often it fired."""

    text: str
    on: str
    name: str
    fired: int


@dataclass(slots=True)
class Check:
    """A finding of a strict check, and the messages that it is about."""

    name: str
    level: str
    text: str
    messages: list[int] = field(default_factory=list)


class Picture(NamedTuple):
    """The exchanges and queues of all virtual hosts. Secrets among their arguments are hidden."""

    queues: list[QueueFacts]
    exchanges: list[ExchangeView]


@dataclass(slots=True)
class Reading:
    """What one broker did during a test."""

    rows: list[PageRow]
    # What happened before it: only what explains the rows.
    before: list[PageRow] = field(default_factory=list)
    title: str = "broker"
    rabbitmq: str = ""
    seed: int | None = None
    clock: str = "real"
    # What the test had when the page was written; None if only its events are known.
    picture: Picture | None = None
    faults: list[Fault] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    # What went wrong, the worst first, and how many of the last rows came after the failure.
    causes: Sequence[Cause] = ()
    # What else was noticed.
    noticed: Sequence[Cause] = ()
    later_count: int = 0
    # What the test calls the broker.
    name: str | None = None
    # How many events the recorder no longer had, and how many this reading leaves out; at least.
    dropped_count: int = 0
    cut_count: int = 0
    redaction: Redaction | None = None
    # The broker's clock when this was read, and its moves; None if only its events are known.
    now: int | None = None
    moves: Sequence[tuple[int, int]] = ()

    def clock_at(self, wall: int) -> int | None:
        """Return the time of the broker's clock at an instant of real time after its last move."""
        if self.now is None or not self.moves:
            return None if self.now is None else wall
        own, real = self.moves[-1]
        return min(own + max(0, wall - real), self.now)


class OwnNumbers(FileNumbering):
    """The numbers that a broker gives itself, and that its failure texts show."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0, lambda: 0)

    def connection(self, number: int | None) -> int | None:
        """Return the number that the broker gave a connection."""
        return number


def live_rows(
    raw_events: Sequence[RawEvent], test: str | None, redaction: Redaction, moves: Iterable[tuple[int, int]]
) -> tuple[list[PageRow], list[PageRow], int]:
    """Return the rows of a test, those of what came before it, and how many events of the test this leaves out.

    The rows begin with the last start of the test; without one, with the oldest event. Of a long test, they are the
    latest. `moves` are those of the broker's clock.
    """
    rows, real_time = Rows(OwnNumbers(), redaction, keeps_bodies=False), RealTime(moves)

    def row_of(raw: RawEvent) -> PageRow:
        row, attrs = rows.columns_and_attrs(raw)
        if raw[0] == events.PUBLISHED:
            attrs["body"] = Event(raw).message.body
        return {**row, "wall": real_time.of(cast("int", raw[1])), "attrs": attrs}

    began = events.began_at(raw_events, test)
    first = max(began, len(raw_events) - _EVENTS_MAX)
    explaining = [raw for raw in raw_events[:first] if raw[0] in events.EXPLAINING]
    before = [*explaining, *_unpublished(raw_events[:first], raw_events[first:])]
    return list(map(row_of, raw_events[first:])), list(map(row_of, before)), first - began


class RealTime:
    """The real time of instants of a broker's clock, as far as the moves of that clock show it."""

    def __init__(self, moves: Iterable[tuple[int, int]]) -> None:
        known = list(moves)
        self._own: Final = [own for own, _ in known]
        self._real: Final = [real for _, real in known]
        # Whether the clock no longer remembers its first moves.
        self._is_cut: Final = isinstance(moves, deque) and len(known) == moves.maxlen

    def of(self, at: int) -> int:
        """Return the real time of an instant. While the clock stood still, that is when it came to stand there."""
        own, real = self._own, self._real
        index = bisect_left(own, at)
        if index < len(own) and own[index] == at:
            return real[index]
        if index == 0:
            return at if not own else min(at, real[0])
        reached = real[index - 1] + at - own[index - 1]
        return reached if index == len(own) else min(reached, real[index])

    def exactly_of(self, at: int) -> int | None:
        """Return the real time of an instant at which the clock ran; None if it stood still or was moved then."""
        own, real = self._own, self._real
        index = bisect_left(own, at)
        if not own:
            return at
        if index < len(own) and own[index] == at:
            return None
        if index == 0:
            return None if self._is_cut else at
        reached = real[index - 1] + at - own[index - 1]
        return reached if index == len(own) or reached <= real[index] else None


def _unpublished(before: Iterable[RawEvent], later: Iterable[RawEvent]) -> list[RawEvent]:
    """Return the publish of each message that later events name and none of them publishes."""
    missing: dict[int, RawEvent] = {}
    published: dict[int, None] = {}
    for raw in later:
        if raw[0] in events.ABOUT_MESSAGES:
            number = Event(raw).message.id
            if raw[0] == events.PUBLISHED:
                published[number] = None
            elif number not in published:
                missing.setdefault(number, raw)
    # Most often nothing is missing, and a broker that many tests share has many earlier events.
    for raw in before if missing else ():
        if raw[0] == events.PUBLISHED and (number := Event(raw).message.id) in missing:
            missing[number] = raw
    return list(map(_published, missing.values()))


def _published(raw: RawEvent) -> RawEvent:
    if raw[0] == events.PUBLISHED:
        return raw
    # The recorder has dropped the publish. Where it came from is unknown; the message itself is not.
    event = Event(raw)
    return (events.PUBLISHED, event.at, event.vhost, None, None, event.message, None)
