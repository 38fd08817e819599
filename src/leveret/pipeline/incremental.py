"""Keeping a warehouse up to date: `ingest` adds new files, and `update` computes the tables of the runs they change.

Each step reads what is committed, has tasks write files that no reader sees yet, and then publishes them with one
commit. So you can kill a step, or any of its tasks, at any point and run it again. Files may come in any order, late,
in pieces or twice. The cost of one more run depends on its own events, not on how many the warehouse already holds.

The tasks run in Spark if a session is given, and otherwise in processes on this machine. The rows are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leveret.errors import ConflictError
from leveret.pipeline import log
from leveret.pipeline.engines import Engine, ProcessEngine, SparkEngine
from leveret.pipeline.log import FileState, State
from leveret.pipeline.progress import Progress, silence
from leveret.pipeline.sources import find, guessed_events
from leveret.pipeline.tasks import TABLE_NAMES
from leveret.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.pipeline.own import Table

# The events that one task works on. A task needs about a third of a gigabyte for as many.
_EVENTS_A_TASK: Final = 400_000
# Up to this many events, starting a process takes longer than the work.
_FEW_EVENTS: Final = 100_000
_SMALL_PART_BYTES: Final = 32 << 20
_MOST_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of `ingest`: the new and changed files, by their paths, and the number of unchanged ones."""

    files: dict[str, FileState]
    unchanged: int

    @property
    def refused(self) -> dict[str, FileState]:
        """The files that cannot be used."""
        return {path: file for path, file in self.files.items() if file.problem is not None}

    @property
    def truncated(self) -> dict[str, FileState]:
        """The files that are cut, of which the complete lines are used."""
        return {path: file for path, file in self.files.items() if file.problem is None and file.is_truncated}


def new_files(state: State, places: Iterable[str | Path]) -> tuple[list[Path], int]:
    """Return the files in these places that are new or have changed, and the number of the others.

    Raises NoTracesError if a place does not exist or is a folder without a trace.
    """
    found = find(places)
    changed = [path for path in found if not _is_known(path, state)]
    return changed, len(found) - len(changed)


def ingest(
    warehouse: Warehouse,
    places: Iterable[str | Path],
    *,
    spark: SparkSession | None = None,
    processes: int | None = None,
    state: State | None = None,
    progress: Progress = silence,
) -> Ingested:
    """Ingest the events of the new and changed files in these places into the warehouse.

    `state` is the warehouse's state if you have it at hand; it is brought up to date. Raises NoTracesError if a place
    does not exist or is a folder without a trace, and ConflictError if other processes keep ingesting the same files
    meanwhile.
    """
    places = list(places)
    engine = _engine(spark, processes)
    state = warehouse.state() if state is None else state
    for _ in range(_MOST_ATTEMPTS):
        changed, unchanged = new_files(state, places)
        if not changed:
            return Ingested({}, unchanged)
        pieces = _pieces_of_files(changed, warehouse, state, engine.width)
        found = _carry_out(engine, "ingest", pieces, progress)
        commit = _ingest_commit(found)
        if _commit_files(warehouse, state, commit):
            return Ingested({path: FileState(**file) for path, file in commit["files"].items()}, unchanged)
    raise ConflictError(
        f"{warehouse.url} was changed by other processes during each of {_MOST_ATTEMPTS} attempts; let only one "
        "process ingest a file"
    )


def update(
    warehouse: Warehouse,
    *,
    spark: SparkSession | None = None,
    processes: int | None = None,
    tables: Mapping[str, Table] | None = None,
    everything: bool = False,
    state: State | None = None,
    progress: Progress = silence,
) -> list[str]:
    """Compute the tables of the runs that are new or have changed, and return their names.

    With `everything`, compute all runs. `tables` are tables of your own, by their names; they need a Spark session, and
    so do rules of your own. Raises ValueError if a table has no column `run`, or other types than declared.
    """
    from leveret.pipeline import own

    added = own.checked(tables or {}, spark)
    state = warehouse.state() if state is None else state
    stale = list(state.runs) if everything else state.stale([*TABLE_NAMES, *added])
    if not stale:
        return []
    engine = _engine(spark, processes)
    pieces = _pieces_of_runs(stale, warehouse, state, engine.width)
    found = _carry_out(engine, "update", pieces, progress)
    parts = {each["part"]: {"tables": each["tables"], "runs": each["runs"], "added": {}} for each in found}
    if spark is not None and (added or own.rules()):
        places = own.build(spark, warehouse, state, parts, added)
        for part in parts.values():
            part["added"] = places
    warehouse.commit({"kind": log.UPDATE, "parts": parts}, state)
    return stale


def compact(
    warehouse: Warehouse,
    *,
    spark: SparkSession | None = None,
    processes: int | None = None,
    small_bytes: int = _SMALL_PART_BYTES,
    progress: Progress = silence,
) -> int:
    """Merge the parts smaller than `small_bytes`, and return how many there were.

    Parts with tables of your own stay as they are. Raises ConflictError if another process changed the warehouse
    meanwhile; nothing is lost, and you can run it again.
    """
    state = warehouse.existing()
    sizes = _part_sizes(warehouse)
    events = _small(state.event_parts(), sizes["events"], small_bytes)
    own_kind = [part for part, answer in state.answers.items() if not answer.added]
    answers = _small(own_kind, sizes["tables"], small_bytes)
    if not events and not answers:
        return 0
    engine = _engine(spark, processes)
    moved, parts = [], {}
    if events:
        wanted = [name for name, run in state.runs.items() if any(each.part in events for each in run.segments)]
        pieces = _pieces_of_runs(wanted, warehouse, state, lambda: 1, only_parts=events)
        moved = _carry_out(engine, "compact_events", pieces, progress)
    if answers:
        piece = {"parts": {part: _live(state, part) for part in answers}}
        merged = _carry_out(engine, "compact_tables", [(_piece(warehouse, state, piece), 0)], progress)
        parts = {each["part"]: {"tables": each["tables"], "runs": each["runs"], "added": {}} for each in merged}
    commit = {
        "kind": log.COMPACT,
        "segments": list(events),
        "runs": {name: run for each in moved for name, run in each["runs"].items()},
        "parts": parts,
    }
    warehouse.commit(commit, state, is_exclusive=True)
    warehouse.write_snapshot(state)
    return len({*events, *answers})


def stream(
    spark: SparkSession,
    place: str | Path,
    warehouse: Warehouse,
    checkpoint: str | Path,
    *,
    tables: Mapping[str, Table] | None = None,
    files_per_batch: int = 1000,
) -> None:
    """Run `ingest` and `update` as a Structured Streaming query over the files now in a folder, then return.

    The checkpoint records the files that were seen, so Spark lists only new ones. Put files into the folder by renaming
    them; a file that changes afterwards is not read again.
    """
    from leveret.pipeline.streaming import stream_files

    def ingest_and_update(session: SparkSession, paths: list[Path]) -> None:
        again = Warehouse(url)
        if paths:
            ingest(again, paths, spark=session)
        update(again, spark=session, tables=tables)

    url = warehouse.url
    stream_files(spark, place, checkpoint, files_per_batch, ingest_and_update)


def _engine(spark: SparkSession | None, processes: int | None) -> Engine:
    return ProcessEngine(processes) if spark is None else SparkEngine(spark)


def _piece(warehouse: Warehouse, state: State, content: Mapping[str, Any]) -> str:
    return json.dumps({"url": warehouse.url, "number": state.number + 1, **content}, separators=(",", ":"))


# What the bar says of each task.
_SAID: Final = {
    "ingest": "ingesting",
    "update": "computing tables",
    "compact_events": "merging events",
    "compact_tables": "merging tables",
}
# A piece of work as JSON, and its events.
_Piece = tuple[str, int]


def _carry_out(engine: Engine, task: str, pieces: list[_Piece], progress: Progress) -> list[dict[str, Any]]:
    """Carry out a task on all pieces and return the results."""
    total = sum(events for _, events in pieces)
    found = []
    with progress(total, "events") as bar:
        bar.say(_SAID[task])
        for result in engine.carry_out(task, [piece for piece, _ in pieces]):
            found.append(json.loads(result))
            bar.advance(total // len(pieces))
    return found


# Returns how many tasks run at the same time. Spark Connect has to carry out a query for that.
_Width = Callable[[], int]


def _share(total: float, width: _Width) -> float:
    """Return how many events a piece should have."""
    return total if total <= _FEW_EVENTS else min(_EVENTS_A_TASK, total / width())


def _shares(sizes: Mapping[str, float], width: _Width) -> Iterator[list[str]]:
    """Yield neighbours in groups of about equal size, none of which is much larger than a task should be."""
    share = _share(sum(sizes.values()), width)
    group: list[str] = []
    held = 0.0
    for name, size in sizes.items():
        if group and held + size / 2 > share:
            yield group
            group, held = [], 0.0
        group.append(name)
        held += size
    if group:
        yield group


def _pieces_of_files(paths: list[Path], warehouse: Warehouse, state: State, width: _Width) -> list[_Piece]:
    sizes = {str(path): guessed_events(str(path), path.stat().st_size) for path in paths}
    return [
        (_piece(warehouse, state, {"paths": group}), int(sum(sizes[path] for path in group)))
        for group in _shares(sizes, width)
    ]


def _pieces_of_runs(
    names: list[str], warehouse: Warehouse, state: State, width: _Width, only_parts: Iterable[str] | None = None
) -> list[_Piece]:
    """Return the work on these runs. Runs whose events are in the same files come together."""
    wanted = set(names)
    refused: dict[str, dict[str, Any]] = {}
    for path, file in state.files.items():
        if file.problem is not None and file.run in wanted:
            refused.setdefault(file.run, {})[path] = asdict(file)

    def told(name: str) -> dict[str, Any]:
        run = state.runs[name]
        segments = [each for each in run.segments if only_parts is None or each.part in only_parts]
        is_whole = len(segments) == len(run.segments)
        return {
            "revision": run.revision,
            "segments": segments,
            # Events that other files repeat are only left out if all of them are at hand.
            "is_repeated": run.is_repeated and is_whole,
            "refused": refused.get(name, {}),
        }

    ordered = sorted(names, key=lambda name: state.runs[name].segments[:1])
    sizes = {name: float(state.runs[name].events) for name in ordered}
    return [
        (_piece(warehouse, state, {"runs": {name: told(name) for name in group}}), int(sum(sizes[n] for n in group)))
        for group in _shares(sizes, width)
    ]


def _ingest_commit(found: list[dict[str, Any]]) -> dict[str, Any]:
    files: dict[str, Any] = {}
    runs: dict[str, Any] = {}
    for each in found:
        files |= each["files"]
        for name, added in each["runs"].items():
            run = runs.setdefault(name, {"events": 0, "files": {}, "segments": []})
            run["events"] += added["events"]
            run["segments"] += added["segments"]
            for worker, count in added["files"].items():
                run["files"][worker] = run["files"].get(worker, 0) + count
    return {"kind": log.INGEST, "files": files, "runs": runs}


def _commit_files(warehouse: Warehouse, state: State, commit: Mapping[str, Any]) -> bool:
    """Commit unless another process has ingested one of these files meanwhile; return whether it was done."""
    while True:
        before = {path: state.files.get(path) for path in commit["files"]}
        try:
            warehouse.commit(commit, state, is_exclusive=True)
            return True
        except ConflictError:
            warehouse.catch_up(state)
            if any(state.files.get(path) != known for path, known in before.items()):
                return False


def _live(state: State, part: str) -> dict[str, Any]:
    return {"tables": state.answers[part].tables, "live": state.live_runs(part)}


def _part_sizes(warehouse: Warehouse) -> dict[str, dict[str, int]]:
    """Return the size of each part in bytes: of its events, and of all its other tables together."""
    sizes: dict[str, dict[str, int]] = {"events": {}, "tables": {}}
    for stored in warehouse.storage.list():
        table, _, name = stored.path.partition("/")
        if name.endswith(".parquet"):
            of_kind = sizes["events" if table in ("events", "files") else "tables"]
            part = name.removesuffix(".parquet")
            of_kind[part] = of_kind.get(part, 0) + stored.size_bytes
    return sizes


def _small(parts: Iterable[str], sizes: Mapping[str, int], small_bytes: int) -> dict[str, None]:
    """Return the parts that are small; none if there is only one, and nothing to merge."""
    small = {part: None for part in parts if sizes.get(part, 0) < small_bytes}
    return small if len(small) > 1 else {}


def _is_known(path: Path, state: State) -> bool:
    known = state.files.get(str(path))
    status = path.stat()
    return known is not None and (known.size_bytes, known.modified_ns) == (status.st_size, status.st_mtime_ns)
