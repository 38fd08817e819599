"""The subject of a report: a run, or a commit with all its runs; and the one to compare it with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from leveret.errors import NoSuchRunError, unknown
from leveret.pipeline.kernel.subjects.runs import moment
from leveret.pipeline.reading import Read, cut_among


@dataclass(frozen=True, slots=True)
class Subject:
    """A run, or all runs of a commit; `name` is the name of the run or the commit."""

    name: str
    runs: tuple[str, ...]
    is_commit: bool
    commit: str | None
    # The start of the first run; None if no header says it.
    began: str | None

    def __str__(self) -> str:
        return f"commit {self.name}" if self.is_commit else f"run {self.name}"


# The columns of `runs` by which a subject is chosen.
COLUMNS: Final = ("run", "commit", "branch", "started", "day", "files")
# The fewest characters with which the beginning of a name may stand for a run or commit.
_LEAST: Final = 4
# Of the earlier runs, those that may be looked at for one that was not cut.
_EARLIER_TRIED: Final = 10
# The fewest runs of a branch that are looked at alone.
_ENOUGH: Final = 12
_BEFORE_ALL: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _UsableRun:
    """A run that has a usable file."""

    run: str
    commit: str | None
    branch: str | None
    started: str | None
    day: date | None

    @property
    def began(self) -> datetime:
        """When it began. A clock that is far ahead says nothing, so its runs come before all others."""
        began = moment(self.started) or _BEFORE_ALL
        return _BEFORE_ALL if is_to_come(began.date()) else began

    @property
    def age(self) -> tuple[datetime, date, str]:
        """A key that sorts runs from the oldest to the newest."""
        return self.began, self.day or date.min, self.run


def is_to_come(day: date) -> bool:
    """Return whether no clock that is about right says this UTC date."""
    return day > datetime.now(UTC).date() + timedelta(days=1)


def choose(runs: pa.Table, name: str | None) -> Subject:
    """Return the run or commit with this name, or the only one whose name begins like it. None selects the newest run.

    `runs` has the columns COLUMNS. Raises NoSuchRunError if no run or commit matches, or several do.
    """
    usable = _usable(runs)
    if not usable:
        raise NoSuchRunError("the warehouse has no run, because no trace could be used; ingest a usable trace first")
    if name is None:
        newest = max(usable, key=lambda each: each.age)
        return Subject(newest.run, (newest.run,), False, newest.commit, newest.started)
    full = _only(name, {each.run for each in usable}, {each.commit for each in usable if each.commit is not None})
    if full is None:
        latest = sorted(usable, key=lambda each: each.age, reverse=True)[:5]
        names = [each.run if each.commit is None else f"{each.run} of commit {each.commit[:12]}" for each in latest]
        raise NoSuchRunError(
            f"{name!r} matches no run and no commit; give a name or at least its first {_LEAST} characters; the newest "
            f"runs are {', '.join(names)}"
        )
    of_run = [each for each in usable if each.run == full]
    chosen = of_run or sorted((each for each in usable if each.commit == full), key=lambda each: (each.began, each.run))
    return Subject(full, tuple(each.run for each in chosen), not of_run, chosen[0].commit, chosen[0].started)


def _only(name: str, runs: set[str], commits: set[str]) -> str | None:
    """Return the run or commit with this name, or else the only one whose name begins with it."""
    if name in runs or name in commits:
        return name
    if len(name) < _LEAST:
        return None
    for kind, names in (("commits", commits), ("runs", runs)):
        near = sorted(each for each in names if each.startswith(name))
        if len(near) > 1:
            raise NoSuchRunError(f"{name!r} matches several {kind}: {', '.join(near)}; give more characters")
        if near:
            return near[0]
    return None


def before(read: Read, runs: pa.Table, subject: Subject) -> Subject | None:
    """Return the newest run that began before this one. For a commit, return the commit of the newest such run.

    Runs that were cut, and commits whose runs all were, are passed over if one of the next few is whole.
    """
    began = moment(subject.began)
    if began is None:
        return None
    earlier = [
        each
        for each in _usable(runs)
        if _BEFORE_ALL < each.began < began
        and each.run not in subject.runs
        and (not subject.is_commit or each.commit not in (None, subject.name))
    ]
    newest_first = sorted(earlier, key=lambda each: each.age, reverse=True)
    names = dict.fromkeys(each.commit if subject.is_commit else each.run for each in newest_first)
    tried = [choose(runs, name) for name in list(names)[:_EARLIER_TRIED] if name is not None]
    whole = (each for each in tried if not cut_among(read, each.runs).issuperset(each.runs))
    return next(whole, tried[0] if tried else None)


def up_to(runs: pa.Table, subject: Subject) -> tuple[str, ...]:
    """Return the runs that began no later than the last of the subject's, oldest first.

    They are those of its branch, if these are enough to find changes, and else those of all branches.
    """
    ordered = sorted(_usable(runs), key=lambda each: each.age)
    last = max(at for at, each in enumerate(ordered) if each.run in subject.runs)
    of_branch = [each for each in ordered[: last + 1] if each.branch == ordered[last].branch]
    return tuple(each.run for each in (of_branch if len(of_branch) >= _ENOUGH else ordered[: last + 1]))


def of_branch(runs: pa.Table, branch: str | None) -> tuple[str, ...]:
    """Return the runs of a branch, or of all, oldest first. Raises ValueError if no run is of this branch."""
    usable = sorted(_usable(runs), key=lambda each: each.age)
    found = tuple(each.run for each in usable if branch in (None, each.branch))
    if not found:
        named = sorted({each.branch for each in usable if each.branch is not None})
        raise ValueError(f"{unknown('branch', branch or '', named)}; the runs of CI name theirs")
    return found


def _usable(runs: pa.Table) -> list[_UsableRun]:
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in runs.select(list(COLUMNS)).to_pylist():
        if row["run"] and (row["files"] or 0) > 0:
            by_run.setdefault(row["run"], []).append(row)
    return [
        _UsableRun(
            run,
            *(_extreme(max, rows, name) for name in ("commit", "branch")),
            *(_extreme(min, rows, name) for name in ("started", "day")),
        )
        for run, rows in by_run.items()
    ]


def _extreme(which: Any, rows: Iterable[dict[str, Any]], name: str) -> Any:
    return which((row[name] for row in rows if row[name] is not None), default=None)
