"""Changes: the run since which a number of a test has a new level or grows, from its values in the last runs.

`run_counts` has the values of one run. `changes` puts those of each test, queue and measure into a series, in order of
time, and looks for changes of its level (see `kernel/levels.py`).

How long spells of noise are follows from all series of a measure together. Times in queues are compared as if all
machines were equally fast.

The more series there are, the more of them look changed by chance. So only as many count as Benjamini and Hochberg
allow: of the series that are said to have changed, at most one in ten is expected to be chance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import Array, NameColumn, numbers
from leveret.pipeline.kernel.grouping import Row
from leveret.pipeline.kernel.groups import Segments, in_order, numbered
from leveret.pipeline.kernel.levels import LevelChange, changes_in, is_varying, level, spell_of
from leveret.pipeline.kernel.subjects.counts import OUTCOMES

# The last runs of a test that are looked at.
RUNS: Final = 100
SERIES: Final = tuple(schema.SERIES)

# If a test is on several workers, or its queue is, the highest number counts; of others, the sum.
_HIGHEST: Final = ("outcome", "depth", "wait", "shape")
_SKIPPED: Final = OUTCOMES.index("skipped")
# What a run without a row says nothing about, with the columns of what it is about. Other measures are 0 then.
_SUBJECTS: Final = {
    "depth": ("test", "vhost", "queue"),
    "wait": ("vhost", "queue"),
    "shape": ("vhost", "exchange", "routing_key", "name"),
}
# So many queues say how fast the machine of a run was.
_LEAST_QUEUES: Final = 3
# The share of series that may have changed by chance alone, among those that are said to have changed.
_FALSE_SHARE: Final = 0.1


class Series(NamedTuple):
    """A number in the last runs of its test, oldest first."""

    # One of its rows.
    row: int
    measure: str
    # The ranks of the runs in the order of time, and the value in each.
    runs: Array
    values: Array


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
        self.spells: Final = {of: spell_of(every) for of, every in self._values_by_measure().items()}

    def names_of(self, series: Series) -> Row:
        """Return the names of what a series is of."""
        return {name: self._names[name].text(series.row) for name in SERIES}

    def believed(self, changed: Sequence[Sequence[Row]]) -> list[Row]:
        """Return the rows of as many series that changed as Benjamini and Hochberg allow, among those that vary."""
        varying_count = sum(is_varying(series.values) for series in self.series)
        chances = sorted(min(row["chance"] for row in of) for of in changed)
        allowed = [chance for rank, chance in enumerate(chances, 1) if chance <= _FALSE_SHARE * rank / varying_count]
        return [row for of in changed if allowed and min(row["chance"] for row in of) <= allowed[-1] for row in of]

    def _values_by_measure(self) -> dict[str, list[Array]]:
        by_measure: dict[str, list[Array]] = defaultdict(list)
        for series in self.series:
            by_measure[series.measure].append(series.values)
        return by_measure


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
            ratios = np.maximum(series.values, 1) / max(level(series.values), 1)
            for run, ratio in zip(series.runs.tolist(), ratios.tolist(), strict=True):
                slowness[run].append(ratio)
    factors = {run: float(np.median(of)) for run, of in slowness.items() if len(of) >= _LEAST_QUEUES}

    def adjusted(series: Series) -> Series:
        factor = np.array([factors.get(run, 1.0) for run in series.runs.tolist()])
        return series._replace(values=np.round(series.values / factor).astype(np.int64))

    return [adjusted(series) if series.measure == "wait" else series for series in every]


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
