"""Charts as SVG: histograms on a logarithmic axis of time, and bars of shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from leveret.pipeline.report.markup import Html, element, joined
from leveret.pipeline.report.words import counted, percent, span

# The number of bars of a histogram for each power of ten.
BINS_A_DECADE: Final = 4

_WIDTH: Final = 290
_HEIGHT: Final = 46
_TICKS_US: Final = (1, 1000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, 30 * 86_400_000_000)
_LEAST_BAR: Final = 1.5


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of a histogram: the bins from `first` to `last`, both included, over its width."""

    first: int
    last: int

    def x(self, place: float) -> float:
        """Return the x coordinate of a position between bins."""
        return (place - self.first) / (self.last - self.first + 1) * _WIDTH

    def ticks(self) -> list[tuple[float, str]]:
        """Return the x coordinates and labels of the marked spans."""
        places = [(math.log10(us) * BINS_A_DECADE, span(us)) for us in _TICKS_US]
        return [(self.x(place), text) for place, text in places if self.first <= place <= self.last + 1]


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole: its name, its size, and the CSS class that gives its colour."""

    name: str
    n: int
    colour: str


def axis_of(bins: Iterable[int]) -> Axis:
    """Return an axis for these bins that covers at least a power of ten."""
    known = list(bins) or [0]
    first, last = min(known), max(known)
    return Axis(first, max(last, first + BINS_A_DECADE))


def axis_labels(axis: Axis) -> Html:
    """Return the labels of an axis's ticks, for display above its histograms."""
    labels = [
        element("text", text, x=_within(x), y=11, text_anchor="start" if x < 15 else "end" if x > 270 else "middle")
        for x, text in axis.ticks()
    ]
    return element(
        "svg", *labels, class_="axis", viewBox=f"0 0 {_WIDTH} 14", width=_WIDTH, height=14, aria_hidden="true"
    )


def histogram(axis: Axis, bins: Sequence[tuple[int, int]], marks: Sequence[float | None], title: str) -> Html:
    """Draw the number of values in each bin as bars, and a line at each of `marks`, which are microseconds."""
    most = max((n for _, n in bins), default=1)
    lines = [element("line", x1=x, x2=x, y1=0, y2=_HEIGHT, class_="grid") for x, _ in axis.ticks() if 0 < x < _WIDTH]
    bars = []
    for place, n in sorted(bins):
        left, right = axis.x(place), axis.x(place + 1)
        height = max(_LEAST_BAR, n / most * (_HEIGHT - 6))
        bars.append(
            element("rect", x=left + 0.5, y=_HEIGHT - height, width=right - left - 1, height=height, class_="bar")
        )
    marked = [
        element("line", x1=_at(axis, us), x2=_at(axis, us), y1=0, y2=_HEIGHT, class_=f"mark mark{number}")
        for number, us in enumerate(marks)
        if us is not None
    ]
    base = element("line", x1=0, x2=_WIDTH, y1=_HEIGHT, y2=_HEIGHT, class_="base")
    return _picture(title, _WIDTH, _HEIGHT, *lines, *bars, *marked, base, class_="histogram")


def shares(parts: Sequence[Share], title: str, width: int = 960, height: int = 16) -> Html:
    """Draw a bar with a piece for each part, in proportion to its size. Every part above zero is visible."""
    shown = [part for part in parts if part.n > 0]
    total = sum(part.n for part in shown)
    least = 3.0
    free = width - least * len(shown)
    pieces, x = [], 0.0
    for part in shown:
        wide = least + free * part.n / total
        label = element("title", f"{part.name}: {part.n} ({percent(part.n, total)})")
        pieces.append(element("rect", label, x=x, y=0, width=max(1.0, wide - 1), height=height, class_=part.colour))
        x += wide
    whole = f"{title}: " + ", ".join(f"{part.n} {part.name}" for part in shown)
    return _picture(whole, width, height, *pieces, class_="shares", preserveAspectRatio="none")


def legend(parts: Sequence[Share], what: str) -> Html:
    """Return the meaning of the colours of `shares`, with the numbers."""
    total = sum(part.n for part in parts)
    items = [
        element(
            "li",
            element("span", class_=f"key {part.colour}"),
            f" {part.n:,} {part.name} ",
            element("span", f"({percent(part.n, total)})", class_="quiet"),
        )
        for part in parts
        if part.n > 0
    ]
    return element("ul", *items, class_="legend", aria_label=counted(total, what))


def _picture(title: str, width: int, height: int, *children: Html, **attributes: str) -> Html:
    box = f"0 0 {width} {height}"
    return element(
        "svg",
        joined(element("title", title)),
        *children,
        role="img",
        viewBox=box,
        width=width,
        height=height,
        **attributes,
    )


def _at(axis: Axis, us: float) -> float:
    return _within(axis.x(math.log10(max(us, 1.0)) * BINS_A_DECADE))


def _within(x: float) -> float:
    return min(max(x, 0.5), _WIDTH - 0.5)
