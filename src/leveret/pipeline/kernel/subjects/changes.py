"""Changes: the run since which a number of a test has a new level or grows, from its values in the last runs.

`run_counts` has the values of one run. `changes` puts those of each test, queue and measure into a series, in order of
time, and looks for two kinds of change in it:

- A *step*: the level (the median) is another one after it. It is where the ranks of both sides differ most
  (Mann-Whitney), and then each side is searched in the same way. The evidence is Fisher's exact test: how likely is it
  that shuffled runs divide as well into those near the level before and those near the level after? A step counts if
  this is at most 1 %, shared among all places where it could have been (Bonferroni), and if each side has three runs.
- A *growth*: since the number was last at its lowest, it has risen from each quarter of the runs to the next, with a
  trend (Mann-Kendall) that chance gives once in a thousand series.

Both use ranks, not sizes. So a few wild values are no change, and a number that goes up and down in a flaky test needs
far more runs as evidence than a number that never did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import NO_ROW, NULL, Array, NameColumn, numbers
from leveret.pipeline.kernel.grouping import Row, grouped
from leveret.pipeline.kernel.groups import Numbering, Segments, in_order, numbered
from leveret.pipeline.kernel.subjects.copies import Copies
from leveret.pipeline.kernel.subjects.runs import RunFacts

# The last runs of a test that are looked at.
RUNS: Final = 100
# The outcomes of tests, best first: `n` of the measure "outcome" is a position here.
OUTCOMES: Final = ("passed", "xfailed", "skipped", "xpassed", "failed", "error")
SERIES: Final = ("test", "vhost", "queue", "measure", "reason", "to_queue")

_SKIPPED: Final = OUTCOMES.index("skipped")
_OF_QUEUES: Final = ("published", "redeliveries", "leaked", "dropped")
# The fewest runs on each side of a step, and of a growth.
_LEAST: Final = 3
_LEAST_GROWING: Final = 8
# How likely chance alone may make a series look like that.
_CHANCE: Final = 0.01
# The normal deviate of a chance of one in a thousand, on either side.
_TREND: Final = 3.29


class LevelChange(NamedTuple):
    """A change in a series: the position of its first run (None if all runs grow), its kind, and the levels."""

    start: int | None
    kind: str
    before: int
    after: int
    runs_before: int
    runs_after: int
    # Whether no later change follows.
    holds: bool


def run_counts(tables: Mapping[str, pa.Table], copies: Copies, about: Mapping[str, RunFacts]) -> pa.Table:
    """Return the table `run_counts`, from other tables and what is known of each run."""
    of_queue = ("day", "run", "test", "vhost", "queue")
    is_published = (copies.enqueue != NO_ROW) & (copies.src_copy == NULL)
    published = Numbering(copies.place, copies.place_event).counts(is_published)
    # The rows of test_queues are in the order of places.
    queues = tables["test_queues"].append_column("published", pa.array(published))
    messages = tables["messages"].select(["day", "run", "test", "vhost", "copies", "returned"])
    dropped = messages.filter(pc.and_not(pc.equal(messages["copies"], 0), messages["returned"]))
    rows: list[Row] = []
    for row in grouped(queues, of_queue, sums=_OF_QUEUES):
        rows += [{**row, "measure": name, "n": row[name]} for name in _OF_QUEUES if row[name]]
    for row in grouped(dropped, ("day", "run", "test", "vhost")):
        rows.append({**row, "measure": "dropped", "n": row["count"]})
    for row in tables["run_lineage"].to_pylist():
        rows.append({**row, "queue": row["from_queue"], "measure": "dead_letters"})
    for row in tables["tests"].select(["day", "run", "test", "outcome"]).to_pylist():
        if row["outcome"] in OUTCOMES:
            rows.append({**row, "measure": "outcome", "n": OUTCOMES.index(row["outcome"])})
    return pa.Table.from_pylist([{**row, **about[row["run"]].columns} for row in rows], schema.RUN_COUNTS)


def changes(rows: pa.Table) -> pa.Table:
    """Return the table `changes`, from rows of `run_counts`."""
    names = {name: NameColumn.of(rows[name]) for name in (*SERIES, "run", "commit")}
    n, rank, first_of_run = numbers(rows["n"]), *in_order_of_time(rows, names["run"])
    is_outcome = names["measure"].is_in(["outcome"])
    test = names["test"].codes
    # A test that is skipped counts nothing, which is no zero. What happens outside of tests has no outcome.
    attended = _runs_by_test(test, rank, (is_outcome & (n != _SKIPPED)) | (test < 0))
    ended = _runs_by_test(test, rank, is_outcome)
    series = numbered(*(names[name].codes for name in SERIES))
    order = in_order(series.number)
    edges = [*Segments.between(series.number[order]).starts.tolist(), len(order)]
    changed: list[dict[str, Any]] = []
    for begin, end in pairwise(edges):
        chosen = order[begin:end]
        row = int(chosen[0])
        runs = (ended if is_outcome[row] else attended).get(int(test[row]), rank[:0])
        values = _values(runs, rank[chosen], n[chosen], is_sum=not is_outcome[row])
        for change in changes_in(values, may_grow=not is_outcome[row]):
            as_row = {name: names[name].text(row) for name in SERIES} | change._asdict()
            if change.start is not None:
                first, before = (int(first_of_run[runs[at]]) for at in (change.start, change.start - 1))
                as_row |= {"since_run": names["run"].text(first), "since_commit": names["commit"].text(first)}
                as_row["commit_before"] = names["commit"].text(before)
            changed.append(as_row)
    return pa.Table.from_pylist(changed, schema.CHANGES)


def changes_in(values: Array, *, may_grow: bool = True) -> list[LevelChange]:
    """Return the changes in a series with a value for each run, oldest first."""
    if len(values) < 2 * _LEAST or values.min() == values.max():
        return []
    growth = _growth(values) if may_grow else None
    if growth is not None:
        return [growth]
    edges = [0, *_steps(values), len(values)]
    levels = [_level(values[start:end]) for start, end in pairwise(edges)]
    steps = []
    for at in range(1, len(levels)):
        lengths = (edges[at] - edges[at - 1], edges[at + 1] - edges[at])
        if levels[at] != levels[at - 1]:
            steps.append(LevelChange(edges[at], "step", levels[at - 1], levels[at], *lengths, at == len(levels) - 1))
    return steps


def _steps(values: Array, offset: int = 0) -> list[int]:
    """Return the positions at which a level begins, by binary segmentation."""
    at = _step(values)
    if at is None:
        return []
    return [*_steps(values[:at], offset), offset + at, *_steps(values[at:], offset + at)]


def _step(values: Array) -> int | None:
    """Return where the values divide best into two levels, or None if chance may do that too."""
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
    is_like_after = (2 * values > before + after) == (after > before)
    alike, of_these = int(is_like_after.sum()), int(is_like_after[at:].sum())
    ways = sum(
        math.comb(alike, more) * math.comb(count - alike, count - at - more)
        for more in range(of_these, min(alike, count - at) + 1)
    )
    return at if ways * len(sizes) <= _CHANCE * math.comb(count, at) else None


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
    if any(left >= right for left, right in pairwise(quarters)) or _trend(risen) < _TREND:
        return None
    after = int(values[-2:].max())
    if start < _LEAST:
        return LevelChange(None, "growth", int(values[0]), after, start, len(risen), True)
    return LevelChange(start, "growth", int(smooth[start - 1]), after, start, len(risen), True)


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


def _runs_by_test(test: Array, rank: Array, where: Array) -> dict[int, Array]:
    """Return the last runs of each test, oldest first."""
    pairs = numbered(test[where], rank[where])
    tests, ranks = test[where][pairs.first], rank[where][pairs.first]
    edges = [*Segments.between(tests).starts.tolist(), len(tests)]
    return {int(tests[begin]): ranks[begin:end][-RUNS:] for begin, end in pairwise(edges)}


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
