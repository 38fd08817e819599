"""The work of one task: from JSON to JSON, and Parquet files in between. Any process may carry it out, and twice.

A task writes its part under a name that it makes up, and returns that name with what it wrote. Only the driver commits,
so a task that dies or runs again leaves only files that no commit names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.events import NEEDED, each_once
from leveret.pipeline.kernel.subjects.runs import Row, began_of, commit_of, runs_of, truncated_of
from leveret.pipeline.kernel.subjects.runs import latest as latest_files
from leveret.pipeline.kernel.tables import tables_of
from leveret.pipeline.kernel.trace import TraceTables
from leveret.pipeline.sources import InspectedFile
from leveret.pipeline.warehouse.log import FileState, Segment
from leveret.pipeline.warehouse.parts import PartWriter, TableWriter, read_events, read_part
from leveret.pipeline.warehouse.warehouse import Warehouse
from leveret.trace.jsonl import as_text, fitting
from leveret.trace.schema import HEADER

# Works on a piece, and writes what comes of it into a part of the warehouse.
Task = Callable[[Warehouse, PartWriter, dict[str, Any]], dict[str, Any]]

READ: Final = pa.schema([schema.STORED_EVENTS.field(name) for name in NEEDED])


def ingest(warehouse: Warehouse, writer: PartWriter, piece: dict[str, Any]) -> dict[str, Any]:
    """Store the events of the trace files `paths`; return each file's state, and how many events it has and where."""
    events, rows = writer.table("events", schema.STORED_EVENTS), writer.table("files", schema.FILES)
    files: dict[str, Any] = {}
    for path in piece["paths"]:
        stored = _Stored(events)
        reader = TraceTables(Path(path))
        for table in reader.tables():
            stored.add(table)
        file = reader.file
        files[path] = {
            "file": asdict(state_of(file)),
            "events": stored.count,
            "segment": stored.segment(writer.part),
        }
        if file.problem is None:
            rows.add(pa.Table.from_pylist([stored.row_of(file, piece["number"])], schema.FILES))
    writer.close()
    return files


def update(warehouse: Warehouse, writer: PartWriter, piece: dict[str, Any]) -> dict[str, Any]:
    """Compute all tables of the runs in `runs`, and return the part with the number of its rows of each table."""
    events = _events_of_runs(warehouse, piece["runs"], READ)
    files = _files_of(warehouse, piece["runs"])
    counts = dict.fromkeys(TABLE_NAMES, 0)
    for name, rows in events:
        wanted = piece["runs"][name]
        refusals = [_refusal(path, FileState(**file)) for path, file in wanted["refused"].items()]
        of_files = [*files.get(name, ()), *refusals]
        for table, of_run in _tables_of_run(rows, of_files, wanted["is_repeated"]).items():
            if len(of_run):
                writer.table(table, of_run.schema).add(of_run)
    counts |= writer.close()
    revisions = {name: wanted["revision"] for name, wanted in piece["runs"].items()}
    return {"part": writer.part, "tables": counts, "runs": revisions}


def compact_events(warehouse: Warehouse, writer: PartWriter, piece: dict[str, Any]) -> dict[str, Any]:
    """Write the events and files of these runs anew, into one part; return where each run's events are now."""
    events, rows = writer.table("events", schema.STORED_EVENTS), writer.table("files", schema.FILES)
    runs: dict[str, Any] = {}
    for name, of_run in _events_of_runs(warehouse, piece["runs"], schema.STORED_EVENTS):
        once = each_once(of_run) if piece["runs"][name]["is_repeated"] else of_run
        moved = _Stored(events)
        moved.add(once)
        runs[name] = {"segments": [moved.segment(writer.part)], "events": len(once)}
    for of_files in _files_of(warehouse, piece["runs"]).values():
        rows.add(pa.Table.from_pylist(latest_files(of_files), schema.FILES))
    writer.close()
    return {"runs": runs}


def compact_tables(warehouse: Warehouse, writer: PartWriter, piece: dict[str, Any]) -> dict[str, Any]:
    """Write the live rows of these parts anew, into one part."""
    for name, columns in SCHEMAS.items():
        for part, answer in piece["parts"].items():
            if answer["tables"].get(name):
                writer.table(name, columns).add(
                    read_part(warehouse.storage, f"{name}/{part}.parquet", columns, runs=answer["live"])
                )
    counts = dict.fromkeys(TABLE_NAMES, 0) | writer.close()
    runs = [run for answer in piece["parts"].values() for run in answer["live"]]
    return {"part": writer.part, "tables": counts, "runs": runs}


SCHEMAS: Final[dict[str, pa.Schema]] = {"runs": schema.RUNS, **schema.TABLES}
TABLE_NAMES: Final = tuple(SCHEMAS)


class _Stored:
    """What was stored of one file, or of a run that is stored anew: the row groups it is in, and its numbers."""

    def __init__(self, events: TableWriter) -> None:
        self._events = events
        self._first = self._end = events.groups
        self.count = 0
        self._seqs: list[int] = []

    def add(self, rows: pa.Table) -> None:
        """Store these events."""
        if len(rows):
            self.count += len(rows)
            self._seqs += pc.min_max(rows["seq"]).as_py().values()
            self._end = max(self._end, self._events.groups + 1)
            self._events.add(rows.cast(schema.STORED_EVENTS))

    def segment(self, part: str) -> Segment:
        """Return where the events are."""
        return Segment(part, self._first, self._end - self._first)

    def row_of(self, file: InspectedFile, ingest: int) -> Row:
        """Return the row of FILES for the file that was stored."""
        return {
            **{name: fitting(file.header.get(name), kind) for name, kind in _HEADER.items()},
            "ingest": ingest,
            "file": file.path,
            "day": file.day,
            "run": file.run,
            "worker": file.worker,
            "events": self.count,
            "first_seq": min(self._seqs, default=None),
            "last_seq": max(self._seqs, default=None),
            "truncated": file.is_truncated,
            "problem": None,
        }


_HEADER: Final = {name: kind for name, kind in {"v": "int", **HEADER}.items() if name in schema.FILES.names}


def state_of(file: InspectedFile) -> FileState:
    """Return a file as the log keeps it."""
    day = file.day.isoformat() if file.day else None
    return FileState(file.size_bytes, file.modified_ns, file.problem, file.run, file.worker, day, file.is_truncated)


def _tables_of_run(events: pa.Table, files: Sequence[Row], is_repeated: bool) -> dict[str, pa.Table]:
    counted = None
    if is_repeated:
        events = each_once(events)
        by_worker = events["worker"].cast(pa.string()).value_counts().to_pylist()
        counted = {each["values"]: each["counts"] for each in by_worker}
    runs = runs_of(files, counted)
    tables = tables_of(events, commit=commit_of(runs), began=began_of(runs), truncated=truncated_of(runs))
    return {"runs": runs, **tables}


def _events_of_runs(
    warehouse: Warehouse, runs: Mapping[str, Any], columns: pa.Schema
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the events of each run. Only runs in several segments wait for the others of theirs."""
    segments = {name: [Segment(*each) for each in run["segments"] if each[2]] for name, run in runs.items()}
    waiting: dict[str, list[pa.Table]] = {}
    every = [(name, segment) for name, of_run in segments.items() for segment in of_run]
    for name, rows in read_events(warehouse.storage, every, columns):
        pieces = waiting.setdefault(name, [])
        pieces.append(rows)
        if len(pieces) == len(segments[name]):
            yield name, pa.concat_tables(waiting.pop(name))
    yield from ((name, columns.empty_table()) for name, of_run in segments.items() if not of_run)


def _files_of(warehouse: Warehouse, runs: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the rows of FILES of each run."""
    parts = dict.fromkeys(part for run in runs.values() for part, _, _ in run["segments"])
    by_run: dict[str, list[Row]] = {}
    for part in parts:
        for row in read_part(warehouse.storage, f"files/{part}.parquet", schema.FILES, runs=list(runs)).to_pylist():
            by_run.setdefault(row["run"], []).append(row)
    return by_run


def _refusal(path: str, file: FileState) -> Row:
    """Return the row of FILES for a refused file. Of its header it holds only run and worker, and the day."""
    day = pa.scalar(file.day).cast(pa.date32()).as_py() if file.day else None
    row: Row = dict.fromkeys(schema.FILES.names)
    told = {"file": as_text(path), "run": file.run, "worker": file.worker, "day": day, "problem": file.problem}
    return row | told | {"ingest": 0, "events": 0, "truncated": file.is_truncated}


_TASKS: Final[dict[str, Task]] = {task.__name__: task for task in (ingest, update, compact_events, compact_tables)}


def carry_out(task: str, piece: str) -> str:
    """Carry out the task of this name on a piece of work."""
    content = json.loads(piece)
    warehouse = Warehouse(content["url"])
    writer = PartWriter(warehouse.storage, warehouse.new_part(content["number"]))
    return json.dumps(_TASKS[task](warehouse, writer, content))
