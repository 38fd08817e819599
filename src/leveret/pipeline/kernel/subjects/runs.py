"""Runs: a row for each run and worker, from the rows of the files that hold them.

Files are few, so this goes through them one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

from leveret.pipeline.kernel.schema import FILES, RUNS

Row = dict[str, Any]


class RunFacts(NamedTuple):
    """What the events of a run do not say: its commit, the microsecond at which it began, and its cut workers."""

    commit: str | None = None
    began: int | None = None
    truncated: frozenset[str] = frozenset()

    @property
    def columns(self) -> Row:
        """What rows of the run say of it."""
        return {"commit": self.commit, "began": self.began}


_OF_HEADER: Final = [
    name for name in RUNS.names if name in FILES.names and name not in ("day", "events", "truncated", "conflicts")
]


def latest(files: Iterable[Row]) -> list[Row]:
    """Return the row of the last ingest for each file, run and worker."""
    found: dict[tuple[str, str, str], Row] = {}
    for row in files:
        key = row["file"], row["run"], row["worker"]
        if key not in found or row["ingest"] >= found[key]["ingest"]:
            found[key] = row
    return list(found.values())


def runs_of(files: Iterable[Row], counted: Mapping[str, int] | None = None) -> pa.Table:
    """Return the table `runs` of these rows of FILES, which stand for one run.

    `counted` holds the number of events of each worker, each event counted once; it is needed if files repeat events.
    If another file has the events that a cut file lacks, the worker is not truncated.
    """
    by_worker: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(latest(files), key=lambda row: row["file"]):
        by_worker.setdefault((row["run"], row["worker"]), []).append(row)
    return pa.Table.from_pylist([_run(of_worker, counted) for of_worker in by_worker.values()], RUNS)


def commit_of(runs: pa.Table) -> str | None:
    """Return the commit that the run's files name; of several, the last by name."""
    named = [row["commit"] for row in runs.select(["commit", "files"]).to_pylist() if row["files"] and row["commit"]]
    return max(named, default=None)


def began_of(runs: pa.Table) -> int | None:
    """Return the microsecond, since 1970, at which the first of the run's files began; None if none says so."""
    instants = [moment(started) for started in runs["started"].to_pylist()]
    return min((round(at.timestamp() * 1e6) for at in instants if at is not None), default=None)


def moment(text: str | None) -> datetime | None:
    """Return the instant that an ISO text names, in UTC unless it says otherwise; None if it names none."""
    try:
        instant = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return instant if instant is None or instant.tzinfo else instant.replace(tzinfo=UTC)


def facts_of(runs: pa.Table) -> RunFacts:
    """Return what the rows of one run say of it."""
    cut = (row["worker"] for row in runs.select(["worker", "truncated"]).to_pylist() if row["truncated"])
    return RunFacts(commit_of(runs), began_of(runs), frozenset(cut))


def _run(files: Collection[Row], counted: Mapping[str, int] | None) -> Row:
    used = [row for row in files if row["problem"] is None]
    header = (used or list(files))[0]
    worker = header["worker"]
    events = sum(row["events"] for row in files)
    return {
        **{name: header[name] for name in _OF_HEADER},
        "day": next((row["day"] for row in files if row["day"] is not None), None),
        "events": events if counted is None else counted.get(worker, 0),
        "files": len(used),
        "refused": len(files) - len(used),
        "conflicts": sum(row["conflicts"] or 0 for row in files),
        "truncated": any(row["truncated"] and not _is_continued(row, used) for row in used),
    }


def _is_continued(cut: Row, files: Iterable[Row]) -> bool:
    """Return whether another file begins before this one's end and goes further, or as far but is whole."""
    end = cut["last_seq"] or 0
    return any(
        other is not cut
        and (other["first_seq"] or 0) <= end + 1
        and ((other["last_seq"] or 0) > end or ((other["last_seq"] or 0) == end and not other["truncated"]))
        for other in files
    )
