"""Keeping a warehouse up to date: `ingest` adds new files, and `update` computes the tables of the runs they change.

Each step reads what is committed, has tasks write files that no reader sees yet, and then publishes them with one
commit. So you can kill a step, or any of its tasks, at any point and run it again. Files may come in any order, late,
in pieces or twice. The cost of one more run depends on its own events, not on how many the warehouse already holds.

The tasks run in Spark if a session is given, and otherwise in processes on this machine. The rows are the same.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leveret.errors import ConflictError
from leveret.pipeline import log
from leveret.pipeline.engines import Engine, ProcessEngine, SparkEngine
from leveret.pipeline.log import FileState, RunState, State
from leveret.pipeline.progress import Progress, silence
from leveret.pipeline.retention import expire_if_due
from leveret.pipeline.sources import find, guessed_events
from leveret.pipeline.tasks import TABLE_NAMES, earliest
from leveret.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.pipeline.own import Table

# The events that one task works on. A task needs about a third of a gigabyte for as many.
_EVENTS_A_TASK: Final = 400_000
# A run of more events is divided: a task would need more than a gigabyte.
_EVENTS_OF_A_LARGE_RUN: Final = 1_500_000
# Up to this many events, starting a process takes longer than the work.
_FEW_EVENTS: Final = 100_000
# A part with fewer events is small. A merge makes parts for as many events as a task works on, so each event is merged
# a few times only.
_SMALL_PART_EVENTS: Final = _EVENTS_A_TASK // 2
# With so many small parts, an update merges them.
_MANY_SMALL_PARTS: Final = 50
_MOST_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of `ingest`: the new and changed files, by their paths, and the number of unchanged ones.

    Files of runs that have expired are in `expired` instead; they change nothing.
    """

    files: dict[str, FileState]
    unchanged: int
    expired: dict[str, FileState] = field(default_factory=dict)

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
    state = warehouse.state() if state is None else state
    for _ in range(_MOST_ATTEMPTS):
        changed, unchanged = new_files(state, places)
        if not changed:
            return Ingested({}, unchanged)
        pieces = _pieces_of_files(changed, warehouse, state, _width(spark, processes))
        found = _carry_out(_engine(spark, processes), "ingest", pieces, progress)
        commit = _ingest_commit(found)
        if _commit_files(warehouse, state, commit):
            return _ingested(state, commit, unchanged)
    raise ConflictError(
        f"{warehouse.url} was changed by other processes during each of {_MOST_ATTEMPTS} attempts; let only one "
        "process ingest a file"
    )


def _ingested(state: State, commit: Mapping[str, Any], unchanged: int) -> Ingested:
    files = {path: FileState(**file) for path, file in commit["files"].items()}
    expired = {path: file for path, file in files.items() if state.has_expired(file)}
    return Ingested({path: file for path, file in files.items() if path not in expired}, unchanged, expired)


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
    expire_if_due(warehouse, state)
    stale = list(state.runs) if everything else state.stale([*TABLE_NAMES, *added])
    if not stale:
        return []
    engine = _engine(spark, processes)
    large = [name for name in stale if _is_large(state.runs[name])]
    pieces = _pieces_of_runs([name for name in stale if name not in large], warehouse, state, engine.width)
    found = _carry_out(engine, "update", pieces, progress)
    found += [each for name in large for each in _in_slices(name, engine, warehouse, state, progress)]
    parts = {each["part"]: {"tables": each["tables"], "runs": each["runs"], "added": {}} for each in found}
    if spark is not None and (added or own.rules()):
        places = own.build(spark, warehouse, state, parts, added)
        for part in parts.values():
            part["added"] = places
    warehouse.commit({"kind": log.UPDATE, "parts": parts}, state)
    _tidy(warehouse, state, spark, processes)
    return stale


def _tidy(warehouse: Warehouse, state: State, spark: SparkSession | None, processes: int | None) -> None:
    """Merge small parts if there are many, and remove files that no longer count."""
    if max(map(len, _small_parts(state, _SMALL_PART_EVENTS))) < _MANY_SMALL_PARTS:
        return
    # If another process commits meanwhile, a later update merges them.
    with suppress(ConflictError):
        compact(warehouse, spark=spark, processes=processes, state=state)
        warehouse.vacuum()


def compact(
    warehouse: Warehouse,
    *,
    spark: SparkSession | None = None,
    processes: int | None = None,
    small_events: int = _SMALL_PART_EVENTS,
    state: State | None = None,
    progress: Progress = silence,
) -> int:
    """Merge the parts with fewer events than `small_events`, and return how many there were.

    Parts with tables of your own stay as they are. An update does this if there are many. Raises ConflictError if
    another process changed the warehouse meanwhile; nothing is lost, and you can run it again.
    """
    state = warehouse.existing() if state is None else state
    events, answers = (parts if len(parts) > 1 else {} for parts in _small_parts(state, small_events))
    if not events and not answers:
        return 0
    engine = _engine(spark, processes)
    moved, parts = [], {}
    if events:
        wanted = [name for name, run in state.runs.items() if any(each.part in events for each in run.segments)]
        pieces = _pieces_of_runs(wanted, warehouse, state, 1, only_parts=events)
        moved = _carry_out(engine, "compact_events", pieces, progress)
    if answers:
        work = [{"parts": {part: _live(state, part) for part in group}} for group in _shares(answers, 1)]
        merged = _carry_out(engine, "compact_tables", [(_piece(warehouse, state, each), 0) for each in work], progress)
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


def _is_large(run: RunState) -> bool:
    # Repeated events must be looked for in all of the run.
    return run.events > _EVENTS_OF_A_LARGE_RUN and not run.is_repeated


def _in_slices(
    name: str, engine: Engine, warehouse: Warehouse, state: State, progress: Progress
) -> list[dict[str, Any]]:
    """Compute the tables of a run in slices, and merge them."""
    events = state.runs[name].events
    wanted = _wanted(state, name, state.refused())

    def piece(**content: Any) -> str:
        return _piece(warehouse, state, {"run": name, **content})

    whole = piece(segments=state.runs[name].segments, events=_EVENTS_A_TASK)
    (divided,) = _carry_out(engine, "divide", [(whole, events)], progress)
    slices = [
        (piece(segments=segments, control=divided["control"], wanted=wanted), events // len(divided["slices"]))
        for segments in divided["slices"]
    ]
    found = _carry_out(engine, "update_slice", slices, progress)
    parts = {each["part"]: each["tables"] for each in found}
    return _carry_out(engine, "merge", [(piece(slices=parts, wanted=wanted), events)], progress)


def _engine(spark: SparkSession | None, processes: int | None) -> Engine:
    return ProcessEngine(processes) if spark is None else SparkEngine(spark)


def _width(spark: SparkSession | None, processes: int | None) -> int:
    return _engine(spark, processes).width


def _piece(warehouse: Warehouse, state: State, content: Mapping[str, Any]) -> str:
    return json.dumps({"url": warehouse.url, "number": state.number + 1, **content}, separators=(",", ":"))


# What the bar says of each task.
_SAID: Final = {
    "ingest": "ingesting",
    "update": "computing tables",
    "divide": "dividing a large run",
    "update_slice": "computing tables",
    "merge": "merging tables",
    "compact_events": "merging events",
    "compact_tables": "merging tables",
}
# A piece of work as JSON, and its events.
_Piece = tuple[str, int]


def _carry_out(engine: Engine, task: str, pieces: list[_Piece], progress: Progress) -> list[dict[str, Any]]:
    """Carry out a task on all pieces and return the results."""
    if not pieces:
        return []
    total = sum(events for _, events in pieces)
    found = []
    with progress(total, "events") as bar:
        bar.say(_SAID[task])
        for result in engine.carry_out(task, [piece for piece, _ in pieces]):
            found.append(json.loads(result))
            bar.advance(total // len(pieces))
    return found


def _share(total: float, width: int) -> float:
    """Return how many events a piece should have."""
    return total if total <= _FEW_EVENTS else min(_EVENTS_A_TASK, total / width)


def _shares(sizes: Mapping[str, float], width: int) -> Iterator[list[str]]:
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


def _pieces_of_files(paths: list[Path], warehouse: Warehouse, state: State, width: int) -> list[_Piece]:
    sizes = {str(path): guessed_events(str(path), path.stat().st_size) for path in paths}
    return [
        (_piece(warehouse, state, {"paths": group}), int(sum(sizes[path] for path in group)))
        for group in _shares(sizes, width)
    ]


def _pieces_of_runs(
    names: list[str], warehouse: Warehouse, state: State, width: int, only_parts: Container[str] | None = None
) -> list[_Piece]:
    """Return the work on these runs. Runs whose events are in the same files come together."""
    ordered = sorted(names, key=lambda name: state.runs[name].segments[:1])
    sizes = {name: float(state.runs[name].events) for name in ordered}
    refused = state.refused()
    return [
        (
            _piece(warehouse, state, {"runs": {name: _wanted(state, name, refused, only_parts) for name in group}}),
            int(sum(sizes[name] for name in group)),
        )
        for group in _shares(sizes, width)
    ]


def _wanted(
    state: State,
    name: str,
    refused: Mapping[str, Mapping[str, FileState]],
    only_parts: Container[str] | None = None,
) -> dict[str, Any]:
    """Return what a task needs to know about a run."""
    run = state.runs[name]
    segments = [each for each in run.segments if only_parts is None or each.part in only_parts]
    return {
        "revision": run.revision,
        "segments": segments,
        # Events that other files repeat are only left out if all of them are at hand.
        "is_repeated": run.is_repeated and len(segments) == len(run.segments),
        "refused": {path: asdict(file) for path, file in refused.get(name, {}).items()},
    }


def _ingest_commit(found: list[dict[str, Any]]) -> dict[str, Any]:
    files: dict[str, Any] = {}
    runs: dict[str, Any] = {}
    for each in found:
        files |= each["files"]
        for name, added in each["runs"].items():
            run = runs.setdefault(name, {"day": None, "events": 0, "files": {}, "segments": []})
            run["day"] = earliest(run["day"], added["day"])
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


def _small_parts(state: State, small_events: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the parts of events and of computed tables that are small, with the events that they are about."""
    events: dict[str, float] = {}
    answers = {part: 0.0 for part, answer in state.answers.items() if not answer.added}
    for run in state.runs.values():
        parts = log.parts_of(run.segments)
        for part in parts:
            events[part] = events.get(part, 0.0) + run.events / len(parts)
        if run.answer in answers:
            answers[run.answer] += run.events
    small = ({part: count for part, count in sizes.items() if count < small_events} for sizes in (events, answers))
    return next(small), next(small)


def _is_known(path: Path, state: State) -> bool:
    known = state.files.get(str(path))
    status = path.stat()
    return known is not None and (known.size_bytes, known.modified_ns) == (status.st_size, status.st_mtime_ns)
