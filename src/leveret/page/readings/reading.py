"""A reading: what one broker did during a test, as a timeline, wherever it was recorded.

`live` reads a running broker, and `trace_source` a file. Everything above sees the timeline only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leveret.trace.redaction import Redaction
from leveret.trace.rows import FileNumbering

if TYPE_CHECKING:
    from leveret.observe.views.views import ExchangeView, QueueFacts
    from leveret.story.causes import Cause
    from leveret.story.entities import Fact
    from leveret.story.timeline import Timeline

# A fact as a page draws it, as a value of JSON.
StoryEvent = dict[str, Any]
# When a fact happened, by the broker's clock and in real time, in microseconds; None if that is unknown.
Times = tuple[int | None, int | None]


@dataclass(slots=True)
class PageFault:
    """A fault that the test added: its text, on what it waits, its name, and how often it fired."""

    text: str
    on: str
    name: str
    fired: int


@dataclass(slots=True)
class PageFinding:
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

    timeline: Timeline
    # When each of its facts happened.
    times: Callable[[Fact], Times]
    # The place of the first fact that a page shows. What happened before explains it.
    began: int = 0
    # Whether what became of deliveries was recorded: RabbitMQ reports no acks.
    has_acks: bool = True
    title: str = "broker"
    rabbitmq: str = ""
    seed: int | None = None
    clock: str = "real"
    # What the test had when the page was written; None if only its events are known.
    picture: Picture | None = None
    faults: list[PageFault] = field(default_factory=list)
    checks: list[PageFinding] = field(default_factory=list)
    # What went wrong, the worst first, and how many of the last facts came after the failure.
    causes: Sequence[Cause] = ()
    # What else was noticed.
    noticed: Sequence[Cause] = ()
    later_count: int = 0
    # What the test calls the broker.
    name: str | None = None
    # How many events the recorder no longer had, and how many this reading leaves out; at least.
    dropped_count: int = 0
    cut_count: int = 0
    redaction: Redaction = field(default_factory=Redaction)
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
