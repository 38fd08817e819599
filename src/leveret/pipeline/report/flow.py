"""A picture of where dead letters go: queues are boxes, and the ways between them arrows, thicker for more messages.

Boxes are arranged in columns, so that most arrows lead to the right, and every arrow enters its box from the left. An
arrow that leads back, as in a cycle of retries, runs below all boxes in a lane of its own. An arrow over several
columns passes through gaps that are kept free for it. The same rows give the same picture.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from leveret.pipeline.report.markup import Html, element, shortened
from leveret.pipeline.report.words import number
from leveret.pipeline.wording import REASONS

MOST_BOXES: Final = 18

_LEAST_BOX_WIDTH: Final = 90
_BOX_HEIGHT: Final = 44
# The least gap between columns, and the room beside a label for the curve and head of its arrow.
_LEAST_GAP: Final = 110
_CURVE: Final = 44
# The room beside the outer columns: little, or enough for arrows that lead back.
_SIDE: Final = 6
_SIDE_OF_LANES: Final = 46
_ROW_GAP: Final = 30
_LANE: Final = 30
_LABEL: Final = 16
_LABEL_GAP: Final = 12
_LONGEST_NAME: Final = 22
_HEAD: Final = 11
# The approximate width of a letter of a label, and of a box.
_LETTER: Final = 7.2
_BOX_LETTER: Final = 7.6
_BOX_INSET: Final = 12
_SWEEPS: Final = 6


@dataclass(frozen=True, slots=True)
class Way:
    """The dead letters that went from one queue to another, counted by reason."""

    source: str
    target: str
    reasons: tuple[tuple[str | None, int], ...]

    @property
    def n(self) -> int:
        """The number of dead letters that went this way."""
        return sum(n for _, n in self.reasons)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The widths of the picture: no wider than its names and labels, because a phone is narrow."""

    box_width: float
    # The gap between columns, in which the labels of arrows are drawn.
    gap: float
    side: float

    def left(self, column: int) -> float:
        return self.side + column * (self.box_width + self.gap)

    def width(self, columns: int) -> float:
        return self.left(columns) - self.gap + self.side


@dataclass(eq=False, slots=True)
class _Place:
    """A box, or the gap that an arrow passes through (`name` is None)."""

    name: str | None
    column: int
    grid: _Grid
    y: float = 0.0
    before: list[_Place] = field(default_factory=list)
    after: list[_Place] = field(default_factory=list)

    height: float = 12.0

    @property
    def left(self) -> float:
        return self.grid.left(self.column)

    @property
    def right(self) -> float:
        return self.left + self.grid.box_width

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def picture(ways: Sequence[Way], redelivered: Mapping[str, int]) -> Html:
    """Draw these ways. Each box shows how often its queue redelivered."""
    names = _names(ways)
    ways = [way for way in ways if way.source in names and way.target in names]
    forward, back = _without_cycles(ways)
    columns = _columns(names, forward)
    grid = _grid(names, redelivered, forward, back)
    places, chains = _placed(columns, forward, grid)
    _arrange(places)
    bottom = max(place.y + place.height for place in places)
    most = max(way.n for way in ways)
    drawn, labels = _forward_arrows(chains, most)
    more, lane_labels, bottom = _back_arrows(back, places, bottom, most)
    boxes = [_box(place, redelivered.get(place.name, 0)) for place in places if place.name is not None]
    width = grid.width(max(columns.values()) + 1)
    description = "; ".join(f"{way.source} to {way.target}: {', '.join(_lines(way))}" for way in ways)
    return element(
        "svg",
        element("title", f"Dead letters: {description}"),
        *drawn,
        *more,
        *boxes,
        *labels,
        *lane_labels,
        class_="flow",
        role="img",
        viewBox=f"0 0 {width:.0f} {bottom + 8:.0f}",
        width=f"{width:.0f}",
        height=f"{bottom + 8:.0f}",
    )


def _grid(names: Sequence[str], redelivered: Mapping[str, int], forward: Sequence[Way], back: Sequence[Way]) -> _Grid:
    texts = [_BOX_LETTER * len(shortened(name, _LONGEST_NAME)) for name in names]
    texts += [_LETTER * len(_again(n)) for name, n in redelivered.items() if n and name in names]
    box = max(_LEAST_BOX_WIDTH, 2 * _BOX_INSET + max(texts))
    gap = max([_LEAST_GAP, *(_width(way) + _CURVE for way in forward)])
    return _Grid(box, gap, _SIDE_OF_LANES if back else _SIDE)


def in_words(reason: str | None) -> str:
    """Return a reason for dead-lettering in words."""
    return REASONS.get(reason or "", reason or "reason unknown")


def class_of(reason: str | None) -> str:
    """Return the CSS class that gives a reason its colour."""
    return f"reason-{reason}" if reason in REASONS else "reason-unknown"


def _lines(way: Way) -> list[str]:
    return [f"{in_words(reason)} · {number(n)}" for reason, n in way.reasons]


def _names(ways: Iterable[Way]) -> list[str]:
    """Return the queues with the busiest ways, at most `MOST_BOXES`."""
    names: dict[str, None] = {}
    for way in sorted(ways, key=lambda way: -way.n):
        new = [name for name in (way.source, way.target) if name not in names]
        if len(names) + len(set(new)) <= MOST_BOXES:
            names.update(dict.fromkeys(new))
    return list(names)


def _without_cycles(ways: Sequence[Way]) -> tuple[list[Way], list[Way]]:
    """Split the ways, in the given order, into those that lead to the right and those that would close a cycle."""
    follows: dict[str, set[str]] = defaultdict(set)
    forward, back = [], []
    for way in ways:
        if way.source == way.target or _leads(follows, way.target, way.source):
            back.append(way)
        else:
            follows[way.source].add(way.target)
            forward.append(way)
    return forward, back


def _leads(follows: Mapping[str, set[str]], source: str, target: str) -> bool:
    seen, news = {source}, [source]
    while news:
        for name in sorted(follows.get(news.pop(), ())):
            if name == target:
                return True
            if name not in seen:
                seen.add(name)
                news.append(name)
    return False


def _columns(names: Sequence[str], forward: Sequence[Way]) -> dict[str, int]:
    """Return the column of each queue: one to the right of all queues that lead to it."""
    columns = dict.fromkeys(names, 0)
    for _ in names:
        for way in forward:
            columns[way.target] = max(columns[way.target], columns[way.source] + 1)
    return columns


def _placed(
    columns: Mapping[str, int], forward: Sequence[Way], grid: _Grid
) -> tuple[list[_Place], list[tuple[Way, list[_Place]]]]:
    """Return a place for each queue, and for each way the places that it leads through, from box to box."""
    # A box is high enough for the labels of all arrows that leave it and the heads of all that enter it.
    leaving: dict[str, float] = defaultdict(float)
    coming: dict[str, float] = defaultdict(float)
    for way in forward:
        leaving[way.source] += _height(way)
        coming[way.target] += _HEAD
    boxes = {
        name: _Place(name, column, grid, height=max(_BOX_HEIGHT, leaving[name] + 12, coming[name] + 12))
        for name, column in columns.items()
    }
    places = list(boxes.values())
    chains = []
    for way in forward:
        source, target = boxes[way.source], boxes[way.target]
        gaps = [_Place(None, column, grid) for column in range(source.column + 1, target.column)]
        chain = [source, *gaps, target]
        for place, following in pairwise(chain):
            place.after.append(following)
            following.before.append(place)
        places += gaps
        chains.append((way, chain))
    return places, chains


def _arrange(places: Sequence[_Place]) -> None:
    """Set the y coordinate of every place: in each column, close to the places that it is joined with."""
    columns: dict[int, list[_Place]] = defaultdict(list)
    for place in places:
        columns[place.column].append(place)
    order = {id_: float(at) for column in columns.values() for at, id_ in enumerate(column)}
    for sweep in range(_SWEEPS):
        to_right = sweep % 2 == 0
        for number_ in sorted(columns, reverse=not to_right):
            column = columns[number_]
            near = {place: place.before if to_right else place.after for place in column}
            column.sort(key=lambda place: _mean([order[other] for other in near[place]], order[place]))
            order |= {place: float(at) for at, place in enumerate(column)}
    for column in columns.values():
        y = 0.0
        for place in column:
            place.y = y
            y += place.height + _ROW_GAP
    tallest = max(_bottom(column) for column in columns.values())
    for column in columns.values():
        shift = (tallest - _bottom(column)) / 2
        for place in column:
            place.y += shift + 4


def _bottom(column: Sequence[_Place]) -> float:
    return max(place.y + place.height for place in column)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _forward_arrows(chains: Sequence[tuple[Way, list[_Place]]], most: int) -> tuple[list[Html], list[Html]]:
    """Draw the arrows, and their labels where each arrow leaves its box."""
    drawn, labels = [], []
    starts, ends = _starts(chains), _ends(chains)
    for number_, (way, chain) in enumerate(chains):
        left, y = chain[0].right, starts[number_]
        begin = left + _LABEL_GAP + _width(way)
        points = [(left, y), (begin, y)]
        for place in chain[1:-1]:
            points += [(place.left, place.middle), (place.right, place.middle)]
        end = (chain[-1].left, ends[number_])
        points.append((end[0] - _HEAD, end[1]))
        drawn.append(_arrow(_curve(points), end, _thickness(way.n, most), way))
        labels.append(_label(way, left + _LABEL_GAP, y))
    return drawn, labels


def _starts(chains: Sequence[tuple[Way, list[_Place]]]) -> dict[int, float]:
    """Return the y coordinate at which each arrow leaves its box: sorted by target, with room for its label."""
    leaving: dict[_Place, list[tuple[float, int]]] = defaultdict(list)
    for number_, (_, chain) in enumerate(chains):
        leaving[chain[0]].append((chain[1].middle, number_))
    starts = {}
    for place, arrows in leaving.items():
        heights = {number_: _height(chains[number_][0]) for _, number_ in arrows}
        y = place.middle - sum(heights.values()) / 2
        for _, number_ in sorted(arrows):
            starts[number_] = y + heights[number_] / 2
            y += heights[number_]
    return starts


def _ends(chains: Sequence[tuple[Way, list[_Place]]]) -> dict[int, float]:
    """Return the y coordinate at which each arrow enters its box."""
    entering: dict[_Place, list[tuple[float, int]]] = defaultdict(list)
    for number_, (_, chain) in enumerate(chains):
        entering[chain[-1]].append((chain[-2].middle, number_))
    ends = {}
    for place, arrows in entering.items():
        step = (place.height - 12) / len(arrows)
        for at, (_, number_) in enumerate(sorted(arrows)):
            ends[number_] = place.middle + (at - (len(arrows) - 1) / 2) * step
    return ends


def _back_arrows(
    back: Sequence[Way], places: Sequence[_Place], bottom: float, most: int
) -> tuple[list[Html], list[Html], float]:
    """Draw the arrows that lead back, in lanes below everything; return them, their labels, and the new bottom."""
    boxes = {place.name: place for place in places if place.name is not None}
    drawn, labels = [], []
    y = bottom
    for lane, way in enumerate(back):
        source, target = boxes[way.source], boxes[way.target]
        y += (_height(way) + _LANE) / 2 if lane else 14 + _height(way) / 2
        width = _thickness(way.n, most)
        inset = 9 + 5 * (lane % 6)
        out, into = source.right + inset, target.left - inset - _HEAD
        start, end = source.y + source.height - 5, target.y + target.height - 7
        path = _rounded(
            [(source.right, start), (out, start), (out, y), (into, y), (into, end), (target.left - _HEAD, end)]
        )
        drawn.append(_arrow(path, (target.left, end), width, way))
        labels.append(_label(way, (out + into - _width(way)) / 2, y))
    return drawn, labels, y + (_height(back[-1]) / 2 if back else 0)


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a curve through these points that is horizontal at each of them."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (x0 + x1) / 2
        path += f"C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
    return path


def _rounded(points: Sequence[tuple[float, float]], radius: float = 7) -> str:
    """Return straight lines through these points, with round corners."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        one, other = _towards(corner, before, radius), _towards(corner, after, radius)
        path += f"L{one[0]:.1f} {one[1]:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {other[0]:.1f} {other[1]:.1f}"
    return path + f"L{points[-1][0]:.1f} {points[-1][1]:.1f}"


def _towards(start: tuple[float, float], end: tuple[float, float], most: float) -> tuple[float, float]:
    length = math.dist(start, end) or 1
    share = min(most, length / 2) / length
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _arrow(path: str, tip: tuple[float, float], width: float, way: Way) -> Html:
    x, y = tip
    half = 4 + width / 2
    head = f"M{x:.1f} {y:.1f}l{-_HEAD} {-half:.1f}v{2 * half:.1f}z"
    line = element("path", d=path, class_="way", stroke_width=f"{width:.1f}")
    return element("g", line, element("path", d=head, class_="head"), class_=_class_of(way))


def _thickness(n: int, most: int) -> float:
    return 1.5 + 5.5 * math.log1p(n) / math.log1p(most)


def _class_of(way: Way) -> str:
    return class_of(way.reasons[0][0]) if len(way.reasons) == 1 else "reason-several"


def _box(place: _Place, redeliveries: int) -> Html:
    assert place.name is not None
    again = None
    if redeliveries:
        again = element("text", _again(redeliveries), x=place.left + _BOX_INSET, y=place.middle + 12, class_="again")
    shown = shortened(place.name, _LONGEST_NAME)
    name_y = place.middle - 3 if redeliveries else place.middle + 5
    box = element("rect", x=place.left, y=place.y, width=place.grid.box_width, height=place.height, rx=6, class_="box")
    return element(
        "g", element("title", place.name), box, element("text", shown, x=place.left + _BOX_INSET, y=name_y), again
    )


def _again(redeliveries: int) -> str:
    return f"↻ {number(redeliveries)} redelivered"


def _height(way: Way) -> float:
    return _LABEL * len(way.reasons) + 5


def _width(way: Way) -> float:
    return _LETTER * max(map(len, _lines(way))) + 10


def _label(way: Way, left: float, y: float) -> Html:
    """Draw a label with a line for each reason, on a background that hides the arrow."""
    width, height = _width(way), _height(way)
    top = y - height / 2
    ground = element("rect", x=left, y=top + 1, width=width, height=height - 2, rx=4, class_="ground")
    lines = [
        element("text", line, x=left + width / 2, y=top + 15 + at * _LABEL, class_=f"label {class_of(reason)}")
        for at, (line, (reason, _)) in enumerate(zip(_lines(way), way.reasons, strict=True))
    ]
    return element("g", ground, *lines)
