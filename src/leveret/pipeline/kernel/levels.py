"""Levels: whether the values of a series have another level since one of its runs, are bad more often, or grow.

A change is of one of three kinds:

- A *step*: the level (the median) is another one after it. It is where the ranks of both sides differ most
  (Mann-Whitney), and then each side is searched in the same way. The evidence is Fisher's exact test: how likely is it
  that shuffled runs divide as well into those near the level before and those near the level after? A step counts if
  this is at most 1 %, shared among all places where it could have been (Bonferroni), and if each side has three runs.
  A value in the middle of both levels is evidence for neither.
- A *rate*: the level is the same, but something happens more or less often, as with a test that has become flaky. The
  evidence is the chance that a shuffled series divides as well anywhere. It counts if it is at most 0.5 %.
- A *growth*: since the number was last at its lowest, it has risen from each quarter of the runs to the next, with a
  trend (Mann-Kendall) that chance gives once in a thousand series.

Noise comes in spells, as on a machine that is slow for ten runs: a run is like the one before it. Each spell counts as
one run in the evidence for a step or a rate.

All use ranks, not sizes. So a few wild values are no change, and a number that goes up and down in a flaky test needs
far more runs as evidence than a number that never did. This file knows measures and arrays of their values, and no
table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from leveret.pipeline.kernel.columns import Array
from leveret.pipeline.kernel.subjects.counts import OUTCOMES

_NO_GROWTH: Final = ("outcome", "wait", "shape")
# A test publishes more or less, and not sometimes. How many runs have an optional field is up to their data.
_NO_RATE: Final = ("published", "depth", "wait", "shape")
# From this number on, a run counts in a rate; 1 for other measures.
_LEAST_BAD: Final = {"outcome": OUTCOMES.index("failed")}
# A median time in a queue is another one if it differs by this factor and by so many microseconds.
_LONGER: Final = 2
_LONGER_US: Final = 10_000
# The fewest runs on each side of a step, and of a growth.
_LEAST: Final = 3
_LEAST_GROWING: Final = 8
# How likely chance alone may make a series look like that.
_CHANCE: Final = 0.01
# The same for a rate. Its chance is exact; that of a step is an upper bound, and mostly far lower.
_CHANCE_OF_RATE: Final = 0.005
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


def is_varying(values: Array) -> bool:
    """Return whether a series has more than one value."""
    return len(values) > 0 and bool(values.min() != values.max())


def changes_in(values: Array, measure: str = "redeliveries", spell: float | None = None) -> list[LevelChange]:
    """Return the changes in a series with a value of this measure for each run, oldest first.

    So many runs count as one, because noise comes in spells; by default, the series says how many.
    """
    if spell is None:
        spell = spell_of([values])
    if len(values) < 2 * _LEAST or not is_varying(values):
        return []
    growth = _growth(values) if measure not in _NO_GROWTH else None
    if growth is not None:
        return [growth]
    found = [(at, chance) for at, of in _steps(values) if (chance := of ** (1 / spell)) <= _CHANCE]
    edges = [0, *(at for at, _ in found), len(values)]
    levels = [level(values[start:end]) for start, end in pairwise(edges)]
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
    before, after = level(values[:at]), level(values[at:])
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
    before, after = level(values[:at]), level(values[at:])
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


def spell_of(every: Iterable[Array]) -> float:
    """Return how many runs count as one in series of one measure, because a run is like the one before it; 1 if not.

    On a machine that is slow for ten runs, all that is sensitive suffers. So the correlation of all series decides,
    each without its own change.
    """
    spread = together = 0.0
    count = 0
    for values in filter(is_varying, every):
        for side in np.split(values, [at for at, _ in _steps(values)]):
            deviations = np.sign(side - level(side))
            deviations = deviations - deviations.mean()
            spread += float((deviations**2).sum())
            together += float((deviations[1:] * deviations[:-1]).sum())
            count += len(side) if deviations.any() else 0
    correlation = together / spread if spread else 0.0
    is_likely = correlation * math.sqrt(count) >= _SPELLS
    return (1 + correlation) / (1 - min(correlation, 0.99)) if is_likely else 1.0


def _growth(values: Array) -> LevelChange | None:
    """Return the growth to the end of the series, or None."""
    # A median of three leaves a growth as it is, and levels a run that stands out.
    inner = np.median(np.lib.stride_tricks.sliding_window_view(values, 3), axis=1)
    smooth = np.concatenate([inner[:1], inner, inner[-1:]])
    start = int(np.flatnonzero(smooth == smooth.min())[-1]) + 1
    risen = values[start:]
    if len(risen) < _LEAST_GROWING:
        return None
    quarters = [level(quarter) for quarter in np.array_split(risen, 4)]
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


def level(values: Array) -> int:
    """Return the median; of two in the middle, the lower, so that it is a value that occurred."""
    return int(np.sort(values)[(len(values) - 1) // 2])
