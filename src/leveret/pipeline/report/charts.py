"""The numbers of charts: bars of shares, histograms on a logarithmic axis of time, and the graph of dead letters.

The templates draw them; the graph is drawn by `assets/flow.js`, with the code that draws the topology of a test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from leveret.pipeline.kernel.grouping import Row
from leveret.pipeline.report.words import OUTCOMES, number, percent, readable, span
from leveret.pipeline.wording import REASONS

# The number of bars of a histogram for each power of ten.
BINS_A_DECADE: Final = 4

_TICKS_US: Final = (1, 1000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, 30 * 86_400_000_000)
_LEAST_BAR: Final = 1.5
_LEAST_PIECE: Final = 3.0
_TEST_COLOURS: Final = {
    "passed": "good-part",
    "failed": "bad-part",
    "error": "pink-part",
    "skipped": "grey-part",
    "xfailed": "blue-part",
    "xpassed": "wait-part",
}

# The most nodes of the graph.
MOST_NODES: Final = 18
# The queue of copies whose origin the trace does not say.
UNKNOWN: Final = "(unknown)"

_THINNEST: Final = 1.5
_THICKEST: Final = 6.0


class Share(NamedTuple):
    """A part of a whole: its name, its size, and the CSS class that gives its colour."""

    name: str
    n: int
    colour: str


class Piece(NamedTuple):
    """The piece of a bar that stands for a share."""

    share: Share
    percent: str
    x: float
    width: float


class Bar(NamedTuple):
    """A bar of a histogram."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of a histogram: the bins from `first` to `last`, both included, over its width."""

    first: int
    last: int

    width: ClassVar[int] = 290
    height: ClassVar[int] = 46

    def ticks(self) -> list[tuple[float, str]]:
        """Return the x coordinates and labels of the marked spans."""
        positions = [(math.log10(us) * BINS_A_DECADE, span(us)) for us in _TICKS_US]
        return [(self._x(position), text) for position, text in positions if self.first <= position <= self.last + 1]

    def x_of(self, us: float) -> float:
        """Return the x coordinate of a span of microseconds."""
        return self.inside(self._x(math.log10(max(us, 1.0)) * BINS_A_DECADE))

    def inside(self, x: float) -> float:
        """Return the x coordinate that is nearest to this one and inside the picture."""
        return min(max(x, 0.5), self.width - 0.5)

    def bars(self, bins: Sequence[tuple[int, int]]) -> list[Bar]:
        """Return a bar for the number of values in each bin."""
        most = max(n for _, n in bins)
        bars = []
        for bin_, n in bins:
            left, right = self._x(bin_), self._x(bin_ + 1)
            height = max(_LEAST_BAR, n / most * (self.height - 6))
            bars.append(Bar(left + 0.5, self.height - height, right - left - 1, height))
        return bars

    def _x(self, position: float) -> float:
        return (position - self.first) / (self.last - self.first + 1) * self.width


def axis_of(queues: Iterable[Row]) -> Axis:
    """Return an axis for the times of all these queues that covers at least a power of ten."""
    bins = [bin_ for row in queues for times in (row["wait"], row["process"]) if times for bin_, _ in times["bins"]]
    return Axis(min(bins), max(*bins, min(bins) + BINS_A_DECADE))


def pieces(shares: Iterable[Share], width: int) -> list[Piece]:
    """Return a piece for each share above zero, in proportion to its size. Every piece is wide enough to be seen."""
    shown = [Share(*share) for share in shares if share[1] > 0]
    total = sum(share.n for share in shown)
    free = width - _LEAST_PIECE * len(shown)
    drawn, x = [], 0.0
    for share in shown:
        wide = _LEAST_PIECE + free * share.n / total
        drawn.append(Piece(share, percent(share.n, total), x, max(1.0, wide - 1)))
        x += wide
    return drawn


def points(values: Sequence[int], width: int, height: int) -> list[tuple[float, float]]:
    """Return the points of a line of values, of which zero is at the bottom."""
    step, most = width / max(len(values), 1), max(1, *values)
    return [
        (round((at + 0.5) * step, 1), round(height - 1 - n / most * (height - 3), 1)) for at, n in enumerate(values)
    ]


def shares_of_tests(outcomes: Iterable[Row]) -> list[Share]:
    """Return the outcomes of tests as shares."""
    return [
        Share(row["outcome"] or "without an end", row["count"], _TEST_COLOURS.get(row["outcome"], "wait-part"))
        for row in outcomes
    ]


def shares_of_messages(outcomes: Iterable[Row]) -> list[Share]:
    """Return the outcomes of messages as shares."""
    known = [(OUTCOMES.get(row["outcome"], (str(row["outcome"]), "grey-part")), row["count"]) for row in outcomes]
    return [Share(name, n, colour) for (name, colour), n in known]


def graph_of(flows: Sequence[Row], redelivered: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Return where dead letters go as JSON takes it: a node for the queues of a name, and an edge for each reason.

    Each node says how often its queue redelivered.
    """
    names = _busiest(flows)
    notes = {row["queue"]: f"↻ {number(row['n'])} redelivered" for row in redelivered}
    most = max((row["n"] for row in flows), default=1)
    edges = [
        {
            "from": row["from_queue"] or UNKNOWN,
            "to": row["to_queue"],
            "kind": reason_class(row["reason"]),
            "label": readable(reason_words(row["reason"])),
            "count": row["n"],
            "width": _THINNEST + (_THICKEST - _THINNEST) * math.log1p(row["n"]) / math.log1p(most),
        }
        for row in flows
    ]
    return {
        "nodes": [{"id": name, "kind": "queue", "label": readable(name), "note": notes.get(name)} for name in names],
        "edges": [edge for edge in edges if edge["from"] in names and edge["to"] in names],
    }


def reason_words(reason: str | None) -> str:
    """Return a reason for dead-lettering in words."""
    return REASONS.get(reason or "", reason or "reason unknown")


def reason_class(reason: str | None) -> str:
    """Return the CSS class that gives a reason its colour."""
    return f"reason-{reason}" if reason in REASONS else "reason-unknown"


def _busiest(flows: Sequence[Row]) -> list[str]:
    """Return the queues between which most dead letters went, at most `MOST_NODES`."""
    between: Counter[tuple[str, str]] = Counter()
    for row in flows:
        between[row["from_queue"] or UNKNOWN, row["to_queue"]] += row["n"]
    names: dict[str, None] = {}
    for ends, _ in between.most_common():
        if len({*names, *ends}) <= MOST_NODES:
            names |= dict.fromkeys(ends)
    return list(names)
