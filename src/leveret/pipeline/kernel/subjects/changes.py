"""Changes: the run since which a number of a test has a new level or grows, from its values in the last runs.

`run_counts` has the values of one run. `changes` puts those of each test, queue and measure into a series, in order of
time, and looks for three kinds of change in it:

- A *step*: the level (the median) is another one after it. It is where the ranks of both sides differ most
  (Mann-Whitney), and then each side is searched in the same way. The evidence is Fisher's exact test: how likely is it
  that shuffled runs divide as well into those near the level before and those near the level after? A step counts if
  this is at most 1 %, shared among all places where it could have been (Bonferroni), and if each side has three runs.
  A value in the middle of both levels is evidence for neither.
- A *rate*: the level is the same, but something happens more or less often, as with a test that has become flaky. The
  evidence is the chance that a shuffled series divides as well anywhere. It counts if it is at most 0.5 %.
- A *growth*: since the number was last at its lowest, it has risen from each quarter of the runs to the next, with a
  trend (Mann-Kendall) that chance gives once in a thousand series.

Noise comes in spells, as on a machine that is slow for ten runs. How long they are follows from all series of a measure
together, and each spell counts as one run in the evidence for a step or a rate. Times in queues are compared as if all
machines were equally fast.

All use ranks, not sizes. So a few wild values are no change, and a number that goes up and down in a flaky test needs
far more runs as evidence than a number that never did.

The more series there are, the more of them look changed by chance. So only as many count as Benjamini and Hochberg
allow: of the series that are said to have changed, at most one in ten is expected to be chance.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import Array, NameColumn, numbers
from leveret.pipeline.kernel.grouping import Row
from leveret.pipeline.kernel.groups import Segments, in_order, numbered
from leveret.pipeline.kernel.subjects.counts import OUTCOMES

# The last runs of a test that are looked at.
RUNS: Final = 100
SERIES: Final = tuple(schema.SERIES)

# If a test is on several workers, or its queue is, the highest number counts; of others, the sum.
_HIGHEST: Final = ("outcome", "depth", "wait", "shape")
_NO_GROWTH: Final = ("outcome", "wait", "shape")
# A test publishes more or less, and not sometimes. How many runs have an optional field is up to their data.
_NO_RATE: Final = ("published", "depth", "wait", "shape")
_SKIPPED: Final = OUTCOMES.index("skipped")
# From this number on, a run counts in a rate; 1 for other measures.
_LEAST_BAD: Final = {"outcome": OUTCOMES.index("failed")}
# What a run without a row says nothing about, with the columns of what it is about. Other measures are 0 then.
_SUBJECTS: Final = {
    "depth": ("test", "vhost", "queue"),
    "wait": ("vhost", "queue"),
    "shape": ("vhost", "exchange", "routing_key", "name"),
}
# A median time in a queue is another one if it differs by this factor and by so many microseconds.
_LONGER: Final = 2
_LONGER_US: Final = 10_000
# So many queues say how fast the machine of a run was.
_LEAST_QUEUES: Final = 3
# The fewest runs on each side of a step, and of a growth.
_LEAST: Final = 3
_LEAST_GROWING: Final = 8
# How likely chance alone may make a series look like that.
_CHANCE: Final = 0.01
# The same for a rate. Its chance is exact; that of a step is an upper bound, and mostly far lower.
_CHANCE_OF_RATE: Final = 0.005
# The share of series that may have changed by chance alone, among those that are said to have changed.
_FALSE_SHARE: Final = 0.1
# Runs are in spells if their correlation with the run before deviates by so much from that of chance.
_SPELLS: Final = 2.0
# The normal deviate of a chance of one in a thousand, on either side.
_TREND: Final = 3.29


class LevelChange(NamedTuple):
    """A change in a series: the position of its first run (None if all runs grow), its kind, and the levels.

    The levels of a rate are the numbers of runs in which it happened.
    """

    start: int | None
    kind: str
    before: int
    after: int
    runs_before: int
    runs_after: int
    # Whether no later change follows.
    holds: bool
    # How likely chance alone does that.
    chance: float


class Series(NamedTuple):
    """A number in the last runs of its test, oldest first."""

    # One of its rows.
    row: int
    measure: str
    # The ranks of the runs in the order of time, and the value in each.
    runs: Array
    values: Array

    @property
    def is_varying(self) -> bool:
        """Whether it has more than one value."""
        return len(self.values) > 0 and bool(self.values.min() != self.values.max())


class EverySeries:
    """The series of rows of `run_counts`, and what they show together."""

    def __init__(self, rows: pa.Table) -> None:
        """Put the rows into series."""
        self._names: Final = {name: NameColumn.of(rows[name]) for name in (*SERIES, "run", "commit")}
        rank, first_of_run = in_order_of_time(rows, self._names["run"])
        # The names of the runs and their commits, oldest first.
        self.run_names: Final = self._names["run"].at(first_of_run)
        self.commits: Final = self._names["commit"].at(first_of_run)
        self.series: Final = _series_of(rows, self._names, rank)
        # How many runs count as one, by measure.
        self.spells: Final = _spells_of(self.series)

    def names_of(self, series: Series) -> Row:
        """Return the names of what a series is of."""
        return {name: self._names[name].text(series.row) for name in SERIES}

    def believed(self, changed: Sequence[Sequence[Row]]) -> list[Row]:
        """Return the rows of as many series that changed as Benjamini and Hochberg allow, among those that vary."""
        varying_count = sum(series.is_varying for series in self.series)
        chances = sorted(min(row["chance"] for row in of) for of in changed)
        allowed = [chance for rank, chance in enumerate(chances, 1) if chance <= _FALSE_SHARE * rank / varying_count]
        return [row for of in changed if allowed and min(row["chance"] for row in of) <= allowed[-1] for row in of]


def changes(rows: pa.Table) -> pa.Table:
    """Return the table `changes`, from rows of `run_counts`."""
    every = EverySeries(rows)
    changed = []
    for series in every.series:
        found = changes_in(series.values, series.measure, every.spells[series.measure])
        if found:
            changed.append([_as_row(change, series, every) for change in found])
    return pa.Table.from_pylist(every.believed(changed), schema.CHANGES)


def _as_row(change: LevelChange, series: Series, every: EverySeries) -> Row:
    row: Row = every.names_of(series) | change._asdict()
    row["chance"] = float(f"{change.chance:.3g}")
    if change.start is not None:
        before, first = series.runs[change.start - 1], series.runs[change.start]
        row |= {"since_run": every.run_names.text(first), "since_commit": every.commits.text(first)}
        row["commit_before"] = every.commits.text(before)
    return row


def subject_of(row: Row) -> tuple[object, ...]:
    """Return what a row of `changes` or `run_counts` is about: a test, or a queue or a kind of message of any test."""
    columns = _SUBJECTS.get(row["measure"], ("test",))
    return (*columns, *(row[name] for name in columns))


def _series_of(rows: pa.Table, names: Mapping[str, NameColumn], rank: Array) -> list[Series]:
    """Return the series of rows of `run_counts`, whose runs have these ranks in the order of time."""
    n, measure, test = numbers(rows["n"]), names["measure"], names["test"].codes
    is_outcome = measure.is_in(["outcome"])
    # A test that is skipped counts nothing, which is no zero. What happens outside of tests has no outcome.
    attended = test, _runs_by(test, rank, (is_outcome & (n != _SKIPPED)) | (test < 0))
    of_measure = {"outcome": (test, _runs_by(test, rank, is_outcome))}
    for name, columns in _SUBJECTS.items():
        subject = numbered(*(names[column].codes for column in columns)).number
        of_measure[name] = subject, _runs_by(subject, rank, measure.is_in([name]))
    number = numbered(*(names[name].codes for name in SERIES)).number
    order = in_order(number)
    found = []
    for begin, end in pairwise([*Segments.between(number[order]).starts.tolist(), len(order)]):
        chosen = order[begin:end]
        row = int(chosen[0])
        of = measure.text(row) or ""
        owner, runs_of = of_measure.get(of, attended)
        runs = runs_of.get(int(owner[row]), rank[:0])
        found.append(Series(row, of, runs, _values(runs, rank[chosen], n[chosen], is_sum=of not in _HIGHEST)))
    return _at_one_speed(found)


def _at_one_speed(every: Sequence[Series]) -> list[Series]:
    """Return the series, of which times are as if all machines were equally fast.

    On a slow machine, messages wait longer in all queues. If a run has several queues, the median of how they differ
    from what is usual for each says how slow it was.
    """
    slowness: dict[int, list[float]] = defaultdict(list)
    for series in every:
        if series.measure == "wait" and len(series.values):
            ratios = np.maximum(series.values, 1) / max(_level(series.values), 1)
            for run, ratio in zip(series.runs.tolist(), ratios.tolist(), strict=True):
                slowness[run].append(ratio)
    factors = {run: float(np.median(of)) for run, of in slowness.items() if len(of) >= _LEAST_QUEUES}

    def adjusted(series: Series) -> Series:
        factor = np.array([factors.get(run, 1.0) for run in series.runs.tolist()])
        return series._replace(values=np.round(series.values / factor).astype(np.int64))

    return [adjusted(series) if series.measure == "wait" else series for series in every]


def changes_in(values: Array, measure: str = "redeliveries", spell: float | None = None) -> list[LevelChange]:
    """Return the changes in a series with a value of this measure for each run, oldest first.

    So many runs count as one, because noise comes in spells; by default, the series says how many.
    """
    if spell is None:
        spell = _spells_of([Series(0, measure, values, values)])[measure]
    if len(values) < 2 * _LEAST or values.min() == values.max():
        return []
    growth = _growth(values) if measure not in _NO_GROWTH else None
    if growth is not None:
        return [growth]
    found = [(at, chance) for at, of in _steps(values) if (chance := of ** (1 / spell)) <= _CHANCE]
    edges = [0, *(at for at, _ in found), len(values)]
    levels = [_level(values[start:end]) for start, end in pairwise(edges)]
    steps = []
    for at, (start, chance) in enumerate(found, 1):
        lengths = (start - edges[at - 1], edges[at + 1] - start)
        if levels[at] != levels[at - 1] and (measure != "wait" or _is_longer(*sorted(levels[at - 1 : at + 1]))):
            steps.append(LevelChange(start, "step", levels[at - 1], levels[at], *lengths, at == len(found), chance))
    return steps or ([] if measure in _NO_RATE else _rates(values >= _LEAST_BAD.get(measure, 1), spell))


def _is_longer(shorter: int, longer: int) -> bool:
    return longer >= _LONGER * shorter and longer - shorter >= _LONGER_US


def difference(values: Array, at: int, measure: str, spell: float) -> LevelChange | None:
    """Return how the values from a position on differ from those before it, whatever the chance."""
    before, after = _level(values[:at]), _level(values[at:])
    if before != after:
        kind, chance = "step", _chance_of_levels(values, at, before, after)
        if measure == "wait" and not _is_longer(*sorted((before, after))):
            return None
    elif measure in _NO_RATE:
        return None
    else:
        is_bad = values >= _LEAST_BAD.get(measure, 1)
        kind, before, after = "rate", int(is_bad[:at].sum()), int(is_bad[at:].sum())
        count, later = len(values), len(values) - at
        chance = min(
            fisher(*side) for side in ((after, later, before + after, count), (before, at, before + after, count))
        )
        if before * later == after * at:
            return None
    # It may differ in either direction.
    return LevelChange(at, kind, before, after, at, len(values) - at, True, min(2 * chance, 1.0) ** (1 / spell))


def _steps(values: Array, offset: int = 0) -> list[tuple[int, float]]:
    """Return the positions at which a level begins, by binary segmentation, and how likely chance does that."""
    found = _step(values)
    if found is None:
        return []
    at, chance = found
    return [*_steps(values[:at], offset), (offset + at, chance), *_steps(values[at:], offset + at)]


def _step(values: Array) -> tuple[int, float] | None:
    """Return where the values divide best into two levels, and the chance; None if chance may do that too."""
    count = len(values)
    if count < 2 * _LEAST:
        return None
    _, number, times = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2)[number]
    sizes = np.arange(_LEAST, count - _LEAST + 1)
    excess = np.cumsum(ranks)[sizes - 1] - sizes * (count + 1) / 2
    at = int(sizes[np.argmax(np.abs(excess) / np.sqrt(sizes * (count - sizes)))])
    before, after = _level(values[:at]), _level(values[at:])
    if before == after:
        return None
    chance = _chance_of_levels(values, at, before, after) * len(sizes)
    return (at, chance) if chance <= _CHANCE else None


def _chance_of_levels(values: Array, at: int, before: int, after: int) -> float:
    """Return how likely shuffled values divide as well into those near one level and those near the other."""
    # A value in the middle of both levels is like neither.
    side = np.sign(2 * values - before - after) * (1 if after > before else -1)
    alike, later = int((side > 0).sum()), int((side[at:] != 0).sum())
    of_these, decided = int((side[at:] > 0).sum()), int((side != 0).sum())
    return fisher(of_these, later, alike, decided)


def fisher(of_these: int, chosen: int, alike: int, count: int) -> float:
    """Return how likely at least so many of some that chance has chosen are among those that are alike, of all."""
    most = min(alike, chosen) + 1
    ways = sum(math.comb(alike, more) * math.comb(count - alike, chosen - more) for more in range(of_these, most))
    return ways / math.comb(count, chosen)


def _rates(is_bad: Array, spell: float) -> list[LevelChange]:
    """Return the change of the share of runs in which something happens, if there is one."""
    count, bad = len(is_bad), int(is_bad.sum())
    if not 0 < bad < count:
        return []
    tails = _tails(count, bad)
    so_far = np.cumsum(is_bad)
    sizes = np.arange(_LEAST, count - _LEAST + 1)
    observed = tails[sizes, so_far[sizes - 1]]
    # Equal chances differ by what floating point leaves.
    at, least = int(sizes[np.argmin(np.round(np.log(observed), 9))]), float(observed.min())
    if least > _CHANCE_OF_RATE:
        return []
    before, after = int(so_far[at - 1]), int(bad - so_far[at - 1])
    if before * (count - at) == after * at:
        return []
    chance = _chance_of(tails, least) ** (1 / spell)
    return [LevelChange(at, "rate", before, after, at, count - at, True, chance)] if chance <= _CHANCE_OF_RATE else []


def _tails(count: int, bad: int) -> Array:
    """Return how likely the first runs have at most, or at least, so many bad ones of all: the smaller chance.

    A row stands for the number of first runs, a column for the number of bad ones among them. These are Fisher's
    one-sided chances. Where a side has too few runs, the number is 2.
    """
    logs = np.array([math.lgamma(number + 1) for number in range(count + 1)])
    tails = np.full((count + 1, bad + 1), 2.0)
    for first in range(_LEAST, count - _LEAST + 1):
        of_them = np.arange(max(0, bad - count + first), min(first, bad) + 1)
        ways = _log_ways(logs, first, of_them) + _log_ways(logs, count - first, bad - of_them)
        weights = np.exp(ways - _log_ways(logs, count, np.array(bad)))
        tails[first, of_them] = np.minimum(np.cumsum(weights), np.cumsum(weights[::-1])[::-1])
    return tails


def _log_ways(logs: Array, count: int, chosen: Array) -> Array:
    ways: Array = logs[count] - logs[chosen] - logs[count - chosen]
    return ways


def _chance_of(tails: Array, least: float) -> float:
    """Return how likely a shuffled series is somewhere as unlikely as this: the chance not to walk around all of it."""
    count, bad = tails.shape[0] - 1, tails.shape[1] - 1
    walking = np.zeros(bad + 1)
    walking[0] = 1.0
    left = bad - np.arange(bad + 1)
    for first in range(1, count + 1):
        is_next_bad = np.clip(left / (count - first + 1), 0, 1)
        moved = walking * (1 - is_next_bad)
        moved[1:] += (walking * is_next_bad)[:-1]
        walking = np.where(tails[first] <= least * (1 + 1e-9), 0, moved)
    return max(1 - float(walking.sum()), least)


def _spells_of(every: Sequence[Series]) -> dict[str, float]:
    """Return for each measure how many runs count as one, because a run is like the one before it; 1 if none is.

    On a machine that is slow for ten runs, all that is sensitive suffers. So the correlation of all series decides,
    each without its own change.
    """
    spread: dict[str, float] = defaultdict(float)
    together: dict[str, float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    for _, measure, _, values in filter(attrgetter("is_varying"), every):
        for side in np.split(values, [at for at, _ in _steps(values)]):
            deviations = np.sign(side - _level(side))
            deviations = deviations - deviations.mean()
            spread[measure] += float((deviations**2).sum())
            together[measure] += float((deviations[1:] * deviations[:-1]).sum())
            count[measure] += len(side) if deviations.any() else 0
    spells = {}
    for measure in {series.measure: None for series in every}:
        correlation = together[measure] / spread[measure] if spread[measure] else 0.0
        is_likely = correlation * math.sqrt(count[measure]) >= _SPELLS
        spells[measure] = (1 + correlation) / (1 - min(correlation, 0.99)) if is_likely else 1.0
    return spells


def _growth(values: Array) -> LevelChange | None:
    """Return the growth to the end of the series, or None."""
    # A median of three leaves a growth as it is, and levels a run that stands out.
    inner = np.median(np.lib.stride_tricks.sliding_window_view(values, 3), axis=1)
    smooth = np.concatenate([inner[:1], inner, inner[-1:]])
    start = int(np.flatnonzero(smooth == smooth.min())[-1]) + 1
    risen = values[start:]
    if len(risen) < _LEAST_GROWING:
        return None
    quarters = [_level(quarter) for quarter in np.array_split(risen, 4)]
    trend = _trend(risen)
    if any(left >= right for left, right in pairwise(quarters)) or trend < _TREND:
        return None
    chance = math.erfc(trend / math.sqrt(2))
    after = int(values[-2:].max())
    if start < _LEAST:
        return LevelChange(None, "growth", int(values[0]), after, start, len(risen), True, chance)
    return LevelChange(start, "growth", int(smooth[start - 1]), after, start, len(risen), True, chance)


def _trend(values: Array) -> float:
    """Return the normal deviate of Kendall's rank correlation with time."""
    count = len(values)
    rises = int(np.sign(values[None, :] - values[:, None])[np.triu_indices(count, 1)].sum())
    times = np.unique(values, return_counts=True)[1]
    variance = (_tied(count) - sum(map(_tied, times.tolist()))) / 18
    return rises / math.sqrt(variance) if variance else 0.0


def _tied(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)


def _level(values: Array) -> int:
    """Return the median; of two in the middle, the lower, so that it is a value that occurred."""
    return int(np.sort(values)[(len(values) - 1) // 2])


def _values(runs: Array, at: Array, n: Array, *, is_sum: bool) -> Array:
    """Return the value in each of these runs: the sum of its rows, or the highest of them; 0 if it has none."""
    values = np.zeros(len(runs), np.int64)
    position = np.searchsorted(runs, at)
    position[position == len(runs)] = -1
    has_run = runs[position] == at if len(runs) else np.zeros(len(at), bool)
    (np.add if is_sum else np.maximum).at(values, position[has_run], n[has_run])
    return values


def _runs_by(owner: Array, rank: Array, where: Array) -> dict[int, Array]:
    """Return the last runs of each owner of numbers, such as a test, oldest first."""
    pairs = numbered(owner[where], rank[where])
    owners, ranks = owner[where][pairs.first], rank[where][pairs.first]
    edges = [*Segments.between(owners).starts.tolist(), len(owners)]
    return {int(owners[begin]): ranks[begin:end][-RUNS:] for begin, end in pairwise(edges)}


def in_order_of_time(rows: pa.Table, run: NameColumn) -> tuple[Array, Array]:
    """Return the rank of each row's run, oldest first, and for each rank a row of the run."""
    groups = numbered(run.codes)
    first = rows.select(["began", "day", "run"]).take(pa.array(groups.first))
    days = numbers(first["day"].cast(pa.int32()))
    keys = list(zip(numbers(first["began"]).tolist(), days.tolist(), first["run"].to_pylist(), strict=True))
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys))
    return rank[groups.number], groups.first[order]
