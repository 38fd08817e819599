"""The work of one task: from JSON to JSON, and Parquet files in between. Any process may carry it out, and twice.

A task writes files under names that it makes up, and returns them. Only the driver commits, so a task that dies or runs
again leaves only files that no table has.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.events import NEEDED
from leveret.pipeline.kernel.grouping import grouped, in_groups
from leveret.pipeline.kernel.shards import renamed
from leveret.pipeline.kernel.subjects.runs import Row, facts_of, runs_of
from leveret.pipeline.kernel.tables import tables_of
from leveret.pipeline.kernel.trace import TraceTables
from leveret.pipeline.sources import InspectedFile, path_text
from leveret.pipeline.warehouse.parts import DataFile, PartWriter, of_runs, read_rows
from leveret.pipeline.warehouse.warehouse import REVISION, TABLES
from leveret.trace.jsonl import fitting
from leveret.trace.schema import HEADER

# The kernel takes the runs of so many events at once: many small ones, or a large one.
EVENTS_AT_ONCE: Final = 100_000

# Works on a piece, and returns the files that it wrote, by their tables, and what else the driver has to know.
Task = Callable[[dict[str, Any]], dict[str, Any]]

READ: Final = pa.schema([schema.EVENTS.field(name) for name in NEEDED])
# Of a run, what its tables were computed from is stored beside its row.
_RUNS: Final = pa.schema([*schema.RUNS, pa.field(REVISION, pa.string()), pa.field(TABLES, pa.string())])
SCHEMAS: Final[dict[str, pa.Schema]] = {"runs": _RUNS, **schema.TABLES}
TABLE_NAMES: Final = tuple(SCHEMAS)


def ingest(piece: dict[str, Any]) -> dict[str, Any]:
    """Store the events of the trace files `paths`, and return a row of FILES for each.

    Of a file that began before `expired_before` no events are stored.
    """
    writer = PartWriter(piece["url"])
    events = writer.table("events", schema.EVENTS)
    rows = []
    for path in piece["paths"]:
        reader, before = TraceTables(Path(path)), events.rows
        seqs: list[int] = []
        day = reader.file.day
        if day is None or day.isoformat() >= piece["expired_before"]:
            for table in reader.tables():
                seqs += [seq for seq in pc.min_max(table["seq"]).as_py().values() if seq is not None]
                events.add(table)
        rows.append(_row_of(reader.file, events.rows - before, seqs) | {"ingest": piece["ingest"]})
    return {"files": rows, "added": writer.close()}


def update(piece: dict[str, Any]) -> dict[str, Any]:
    """Compute all tables of the runs in `runs`."""
    writer = PartWriter(piece["url"])
    names = list(piece["runs"])
    events = read_rows(piece["url"], "events", [DataFile(*file) for file in piece["events"]], READ, runs=names)
    counted: dict[str, dict[str, int]] = {name: {} for name in names}
    for row in grouped(events, ("run", "worker")):
        counted[row["run"]][row["worker"]] = row["count"]
    facts = {}
    for name, about in piece["runs"].items():
        runs = runs_of(renamed(map(_parsed, about["files"])), counted[name])
        facts[name] = facts_of(runs)
        for column, value in ((REVISION, about["revision"]), (TABLES, piece["tables"])):
            runs = runs.append_column(column, pa.array([value] * len(runs), pa.string()))
        writer.table("runs", _RUNS).add(runs)
    for group in in_groups({name: float(sum(of.values())) for name, of in counted.items()}, EVENTS_AT_ONCE):
        for table, rows in tables_of(of_runs(events, group), facts).items():
            writer.table(table, rows.schema).add(rows)
    return {"added": writer.close()}


def _row_of(file: InspectedFile, events: int, seqs: list[int]) -> Row:
    """Return the row of FILES, as JSON has it. Of the header of a refused file it holds only run, worker and day."""
    header = file.header if file.problem is None else {}
    of_header = {name: fitting(header.get(name), kind) for name, kind in {"v": "int", **HEADER}.items()}
    return {
        **of_header,
        "file": path_text(file.path),
        "size_bytes": file.size_bytes,
        "modified_ns": file.modified_ns,
        "day": file.day.isoformat() if file.day else None,
        "run": file.run,
        "worker": file.worker,
        "events": events,
        "first_seq": min(seqs, default=None),
        "last_seq": max(seqs, default=None),
        "conflicts": 0,
        "truncated": file.is_truncated,
        "problem": file.problem,
    }


def _parsed(row: Row) -> Row:
    return row | {"day": date.fromisoformat(row["day"]) if row["day"] else None}


_TASKS: Final[dict[str, Task]] = {task.__name__: task for task in (ingest, update)}


def carry_out(task: str, piece: str) -> str:
    """Carry out the task of this name on a piece of work."""
    return json.dumps(_TASKS[task](json.loads(piece)))
