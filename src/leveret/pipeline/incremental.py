"""Keeping a warehouse up to date: `ingest` adds new files, and `update` computes the tables of the runs they change.

Each step reads the state of the warehouse, has tasks write files that no table has yet, and commits them table by
table. So you can kill a step, or any of its tasks, at any point and run it again. Files may come in any order, late,
in pieces or twice. The cost of one more run depends on its own events, not on how many the warehouse already holds.

The tasks run in Spark if a session is given, and otherwise in processes on this machine. The rows are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from leveret.errors import ConflictError
from leveret.pipeline import rules
from leveret.pipeline.computing.tasks import SCHEMAS, TABLE_NAMES
from leveret.pipeline.computing.work import EVENTS_A_TASK, Work
from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.grouping import grouped, in_groups
from leveret.pipeline.kernel.shards import merged
from leveret.pipeline.progress import Progress, silence
from leveret.pipeline.sources import find, path_text
from leveret.pipeline.warehouse.keeping import expire, tidy
from leveret.pipeline.warehouse.parts import DataFile, PartWriter, of_runs, read_rows
from leveret.pipeline.warehouse.state import Contents, FileState
from leveret.pipeline.warehouse.warehouse import FILES, RUNS, Warehouse, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.pipeline.computing.own import Table

T = TypeVar("T")

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

    def attempt() -> Ingested:
        changed, unchanged = new_files(state, places)
        refused_before = sum(state.files[path_text(str(path))].problem is not None for path in unchanged)
        if not changed:
            return Ingested({}, len(unchanged), refused_before)
        files = _ingest(warehouse, state, changed, Work(warehouse, state, spark, processes, progress))
        warehouse.refresh(state)
        days = {file.run: file.since for file in files.values() if file.run and file.run not in state.runs}
        return Ingested(files, len(unchanged), refused_before, days)

    return _attempted(warehouse, state, attempt)


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
    so do rules of your own. Raises ValueError if a table has no column `run`, and ConflictError if other processes keep
    updating the same runs meanwhile.
    """
    from leveret.pipeline.computing import own

    warehouse = opened(warehouse)
    added = tables or {}
    own.check(added, spark)
    state = warehouse.state() if state is None else state

    def attempt() -> list[str]:
        if state.keep_days is not None:
            expire(warehouse, state.keep_days, state=state)
        wanted = [*TABLE_NAMES, *added]
        stale = list(state.runs) if everything else state.stale(wanted)
        if stale:
            results = Work(warehouse, state, spark, processes, progress).update(stale, wanted)
            written = {name: (columns, files_in(results, name)) for name, columns in SCHEMAS.items()}
            if spark is not None and (added or rules.RULES):
                own.build(spark, warehouse, state, stale, written, added)
            # A run counts as computed once it has a row in `runs`, so that comes last.
            for name in sorted(written, key=lambda name: name == RUNS):
                columns, files = written[name]
                warehouse.replace(state, name, columns, stale, files)
            warehouse.refresh(state)
            tidy(warehouse, state)
        return stale

    return _attempted(warehouse, state, attempt)


def files_in(results: Iterable[Mapping[str, Any]], table: str) -> list[DataFile]:
    """Return the files of a table that tasks wrote."""
    return [DataFile(*result["added"][table]) for result in results if table in result["added"]]


def _attempted(warehouse: Warehouse, state: Contents, attempt: Callable[[], T]) -> T:
    """Return the result of an attempt. If another process has changed the same runs meanwhile, make another one."""
    for _ in range(_MOST_ATTEMPTS):
        try:
            return attempt()
        except ConflictError:
            warehouse.refresh(state)
    raise ConflictError(
        f"{warehouse.url} was changed by other processes during each of {_MOST_ATTEMPTS} attempts; let only one "
        "process ingest a file"
    )


def _ingest(warehouse: Warehouse, state: Contents, paths: Iterable[Path], work: Work) -> dict[str, FileState]:
    """Store these files and their events, and return the files."""
    results = work.ingest(paths, state.expired_before)
    files = {row["file"]: row for result in results for row in result["files"]}
    late = {
        path
        for path, row in files.items()
        if row["run"] in state.runs and row["day"] and row["day"] < state.expired_before
    }
    if late:
        # A piece that began so long ago belongs to a run that is still there.
        again = work.ingest([path for path in paths if path_text(str(path)) in late], "")
        files |= {row["file"]: row for result in again for row in result["files"]}
        results += again
    today = datetime.now(UTC).date().isoformat()
    for row in files.values():
        row["since"] = row["day"] or today
    runs = {row["run"] for row in files.values()}
    repeated = _repeated(warehouse, state, files.values())
    old, added = _merged(warehouse, state, files_in(results, "events"), repeated, files)
    warehouse.commit(state, "events", schema.EVENTS, runs, added, old)
    writer = PartWriter(warehouse.url)
    rows = [{**row, "day": date.fromisoformat(row["day"]) if row["day"] else None} for row in files.values()]
    writer.table(FILES, schema.FILES).add(pa.Table.from_pylist(rows, schema.FILES))
    warehouse.commit(state, FILES, schema.FILES, runs, [*writer.close().values()])
    return {path: _state_of(row) for path, row in files.items()}


def _state_of(row: Mapping[str, Any]) -> FileState:
    told = {name: row[name] for name in FileState._fields if name in row}
    return FileState(**told, is_truncated=row["truncated"])


def _repeated(warehouse: Warehouse, state: Contents, rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the runs of which several files hold the same worker, so that an event may occur twice."""
    files = Counter((row["run"], row["worker"]) for row in rows if row["events"])
    runs = {run for run, _ in files}
    # The table also holds events of a file that is not in `files`, if an ingest was killed between these tables.
    columns = pa.schema({"run": pa.string(), "worker": pa.string()})
    held = read_rows(warehouse.url, "events", state.holding("events", runs), columns, runs=runs)
    files.update((row["run"], row["worker"]) for row in grouped(held, columns.names))
    return {run for (run, _), count in files.items() if count > 1}


def _merged(
    warehouse: Warehouse,
    state: Contents,
    added: Sequence[DataFile],
    runs: set[str],
    files: Mapping[str, dict[str, Any]],
) -> tuple[list[DataFile], list[DataFile]]:
    """Return the files of `events` to remove, and those to add instead of these, with each event of these runs once.

    Notes in the rows of these trace files how many conflicts they brought.
    """
    last = {(row["run"], row["worker"], row["started"]): row for _, row in sorted(files.items()) if row["events"]}
    old = warehouse.with_rows_of("events", state.files_of("events"), runs)
    new = warehouse.with_rows_of("events", added, runs)
    result = [file for file in added if file not in new]
    for file, has_others in {**old, **new}.items():
        if has_others:
            writer = PartWriter(warehouse.url)
            rows = read_rows(warehouse.url, "events", [file], schema.EVENTS, without=runs)
            writer.table("events", schema.EVENTS).add(rows)
            result += writer.close().values()
    sizes = {run: float(sum(file.rows for file in (*old, *new) if file.may_hold([run]))) for run in sorted(runs)}
    for group in in_groups(sizes, EVENTS_A_TASK):
        writer = PartWriter(warehouse.url)
        rows = read_rows(warehouse.url, "events", [*old, *new], schema.EVENTS, runs=group)
        for run in group:
            once, conflicts = merged(of_runs(rows, [run]))
            writer.table("events", schema.EVENTS).add(once)
            for shard, count in conflicts.items():
                if (run, *shard) in last:
                    last[run, *shard]["conflicts"] = count
        result += writer.close().values()
    return list(old), result


def _is_known(path: Path, state: Contents) -> bool:
    file = state.files.get(path_text(str(path)))
    status = path.stat()
    return file is not None and (file.size_bytes, file.modified_ns) == (status.st_size, status.st_mtime_ns)
