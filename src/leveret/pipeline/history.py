"""What changed over the last runs and still holds, by cause: the commit, or else the run, with which it came.

The report and `diff` say it in the same sentences, whose words are in `wording`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import pyarrow as pa

from leveret.pipeline.kernel.grouping import Row, grouped
from leveret.pipeline.kernel.subjects.changes import RUNS, SERIES, changes, subject_of
from leveret.pipeline.reading import Read, chosen
from leveret.pipeline.wording import change_text
from leveret.wording import count_text

# The measures by how bad it is if one rises.
_MEASURES: Final = (
    *("outcome", "refused", "dropped", "dead_letters", "shape", "leaked", "late", "redeliveries", "depth", "wait"),
    "published",
)
# What need not be worse if there is more of it.
_NEITHER: Final = ("published", "shape")
# A test is looked at if it ran in one of so many newest runs.
_RECENT: Final = 10
_OF_CHANGE: Final = ("kind", *SERIES[1:])


@dataclass(frozen=True, slots=True)
class ChangeOrigin:
    """All that came with one commit or run: `changes` are rows of the table, the worst first.

    A row adds up those of several `tests`, but outcomes and rates are each of one test. `run` is None if the number
    grew from the first runs on; `runs_ago` is then the number of all these runs.
    """

    run: str | None
    commit: str | None
    # Whether the run before was one of the same commit, so that the code is not the cause.
    is_same_commit: bool
    runs_ago: int
    changes: list[Row]

    @property
    def is_bad(self) -> bool:
        """Whether one of the changes is for the worse."""
        return any(is_worse(row) for row in self.changes)

    def since(self, named: Callable[[str], str] = str, text: Callable[[str], str] = str) -> str:
        """Return since when it is so: "since 59395c05b3e1, 6 runs ago". The arguments are those of `change_text`."""
        if self.run is None:
            return f"in all of the last {self.runs_ago} runs"
        template = "since {commit}, {ago}" if self.commit else "since run {run}, {ago}"
        if self.is_same_commit:
            template = "since run {run}, {ago}, on the same commit as the run before it ({commit})"
        ago = count_text(self.runs_ago, "run") + " ago"
        return text(template).format(run=named(self.run), ago=ago, commit=named((self.commit or "")[:12]))

    def __str__(self) -> str:
        return f"{self.since()}: {'; '.join(change_text(row) for row in self.changes)}"


@dataclass(frozen=True, slots=True)
class History:
    """The last runs, oldest first, their rows of `run_counts`, and the causes of what changed, the worst first."""

    runs: tuple[str, ...]
    counts: pa.Table
    causes: list[ChangeOrigin]


def history(read: Read, runs: Sequence[str]) -> History:
    """Return what changed over the last of these runs, which are given oldest first."""
    runs = tuple(runs[-RUNS:])
    counts = read("run_counts", runs=runs)
    position = {run: at for at, run in enumerate(runs)}
    # A test that was removed or renamed has no part in the newest runs.
    recent = grouped(chosen(counts, {"run": runs[-_RECENT:]}), [name for name in SERIES if name != "field"])
    current = {subject_of(row) for row in recent}
    by_cause: dict[str | None, list[Row]] = {}
    for row in changes(counts).to_pylist():
        if row["holds"] and subject_of(row) in current:
            by_cause.setdefault(row["since_commit"] or row["since_run"], []).append(row)
    causes = [_cause(rows, position) for rows in by_cause.values()]
    return History(runs, counts, sorted(causes, key=lambda cause: (badness(cause.changes[0]), cause.runs_ago)))


def is_worse(row: Row) -> bool:
    """Return whether a change is for the worse."""
    before, after = row["before"], row["after"]
    if row["kind"] == "rate":
        before, after = before * row["runs_after"], after * row["runs_before"]
    return bool(after > before) and row["measure"] not in _NEITHER


def _cause(rows: list[Row], position: dict[str, int]) -> ChangeOrigin:
    first = min(rows, key=lambda row: position.get(row["since_run"], -1))
    is_dated = first["since_run"] is not None
    ago = len(position) - 1 - position[first["since_run"]] if is_dated else first["runs_before"] + first["runs_after"]
    commit = first["since_commit"]
    is_same = commit is not None and first["commit_before"] == commit
    return ChangeOrigin(first["since_run"], commit, is_same, ago, sorted(summed(rows), key=badness))


def summed(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each number that changed, over the tests in which it did. Of depths, the greatest counts."""
    summed: dict[tuple[object, ...], Row] = {}
    for row in sorted(rows, key=lambda row: row["test"] or ""):
        key = (
            *itemgetter(*_OF_CHANGE)(row),
            row["test"] if row["measure"] == "outcome" or row["kind"] == "rate" else row["after"] > row["before"],
        )
        total = summed.setdefault(key, {**row, "tests": [], "before": 0, "after": 0})
        for side in ("before", "after"):
            total[side] = max(total[side], row[side]) if row["measure"] == "depth" else total[side] + row[side]
        total["tests"] += [row["test"]] if row["test"] is not None else []
    return list(summed.values())


def badness(row: Row) -> tuple[bool, int, str]:
    """Return a key that sorts changes, the worst first."""
    return (not is_worse(row), _MEASURES.index(row["measure"]), row["queue"] or "")
