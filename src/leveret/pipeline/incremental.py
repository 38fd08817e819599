"""Keeping a warehouse up to date: `ingest` adds new files, and `update` computes the tables of the runs they change.

Each step reads what is committed, has tasks write files that no reader sees yet, and then publishes them with one
commit. So you can kill a step, or any of its tasks, at any point and run it again. Files may come in any order, late,
in pieces or twice. The cost of one more run depends on its own events, not on how many the warehouse already holds.

The tasks run in Spark if a session is given, and otherwise in processes on this machine. The rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leveret.errors import ConflictError
from leveret.pipeline import rules
from leveret.pipeline.computing.tasks import TABLE_NAMES
from leveret.pipeline.computing.work import Work
from leveret.pipeline.progress import Progress, silence
from leveret.pipeline.sources import find
from leveret.pipeline.warehouse import log
from leveret.pipeline.warehouse.compaction import tidy
from leveret.pipeline.warehouse.log import Contents, FileState
from leveret.pipeline.warehouse.retention import expire
from leveret.pipeline.warehouse.warehouse import Warehouse, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.pipeline.computing.own import Table

_MOST_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of `ingest`: the new and changed files, by their paths, and the number of unchanged ones.

    `expired` names the runs in these files that have expired, with the date on which each began. What the files hold of
    them has no effect.
    """

    files: dict[str, FileState]
    unchanged: int
    # How many of the unchanged files were refused when they came.
    refused_before: int = 0
    expired: dict[str, str] = field(default_factory=dict)

    @property
    def refused(self) -> dict[str, FileState]:
        """The files that cannot be used."""
        return {path: file for path, file in self.files.items() if file.problem is not None}

    @property
    def truncated(self) -> dict[str, FileState]:
        """The files that are cut, of which the complete lines are used."""
        return {path: file for path, file in self.files.items() if file.problem is None and file.is_truncated}


def new_files(state: Contents, places: Iterable[str | Path]) -> tuple[list[Path], list[Path]]:
    """Return the files in these places that are new or have changed, and the others.

    Raises NoTracesError if a place does not exist or is a folder without a trace.
    """
    paths = find(places)
    is_known = {path: _is_known(path, state) for path in paths}
    return [path for path in paths if not is_known[path]], [path for path in paths if is_known[path]]


def ingest(
    warehouse: Warehouse | str | Path,
    places: str | Path | Iterable[str | Path],
    *,
    spark: SparkSession | None = None,
    processes: int | None = None,
    state: Contents | None = None,
    progress: Progress = silence,
) -> Ingested:
    """Ingest the events of the new and changed files in these places into the warehouse.

    `state` is the warehouse's state if you have it at hand; it is brought up to date. Raises NoTracesError if a place
    does not exist or is a folder without a trace, and ConflictError if other processes keep ingesting the same files
    meanwhile.
    """
    warehouse = opened(warehouse)
    places = [places] if isinstance(places, str | Path) else list(places)
    state = warehouse.state() if state is None else state
    for _ in range(_MOST_ATTEMPTS):
        changed, unchanged = new_files(state, places)
        refused_before = sum(state.files[str(path)].problem is not None for path in unchanged)
        if not changed:
            return Ingested({}, len(unchanged), refused_before)
        results = Work(warehouse, state, spark, processes, progress).ingest(changed)
        commit = {"kind": log.INGEST, "files": {path: stored for each in results for path, stored in each.items()}}
        if _commit_files(warehouse, state, commit):
            return _ingested(state, commit, len(unchanged), refused_before)
    raise ConflictError(
        f"{warehouse.url} was changed by other processes during each of {_MOST_ATTEMPTS} attempts; let only one "
        "process ingest a file"
    )


def _ingested(state: Contents, commit: Mapping[str, Any], unchanged: int, refused_before: int) -> Ingested:
    files = {path: state.files[path] for path in commit["files"]}
    days = log.days_of(files.values())
    expired = {run: day for run, day in days.items() if day and state.has_expired(run, day)}
    return Ingested(files, unchanged, refused_before, expired)


def update(
    warehouse: Warehouse | str | Path,
    *,
    spark: SparkSession | None = None,
    processes: int | None = None,
    tables: Mapping[str, Table] | None = None,
    everything: bool = False,
    state: Contents | None = None,
    progress: Progress = silence,
) -> list[str]:
    """Compute the tables of the runs that are new or have changed, and return their names.

    With `everything`, compute all runs. `tables` are tables of your own, by their names; they need a Spark session, and
    so do rules of your own. Raises ValueError if a table has no column `run`.
    """
    from leveret.pipeline.computing import own

    warehouse = opened(warehouse)
    added = tables or {}
    own.check(added, spark)
    state = warehouse.state() if state is None else state
    if state.keep_days is not None:
        expire(warehouse, state.keep_days, state=state)
    stale = list(state.runs) if everything else state.stale([*TABLE_NAMES, *added])
    if not stale:
        return []
    results = Work(warehouse, state, spark, processes, progress).update(stale)
    parts = {each["part"]: {"tables": each["tables"], "runs": each["runs"], "added": {}} for each in results}
    if spark is not None and (added or rules.RULES):
        places = own.build(spark, warehouse, state, parts, added)
        for part in parts.values():
            part["added"] = places
    warehouse.commit({"kind": log.UPDATE, "parts": parts}, state)
    tidy(warehouse, state, spark, processes)
    return stale


def _commit_files(warehouse: Warehouse, state: Contents, commit: Mapping[str, Any]) -> bool:
    """Commit unless another process has ingested one of these files meanwhile; return whether it was done."""
    while True:
        before = {path: state.files.get(path) for path in commit["files"]}
        try:
            warehouse.commit(commit, state, is_exclusive=True)
            return True
        except ConflictError:
            warehouse.catch_up(state)
            if any(state.files.get(path) != file for path, file in before.items()):
                return False


def _is_known(path: Path, state: Contents) -> bool:
    file = state.files.get(str(path))
    status = path.stat()
    return file is not None and (file.size_bytes, file.modified_ns) == (status.st_size, status.st_mtime_ns)
