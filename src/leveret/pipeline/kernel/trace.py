"""Reading a trace file into a table of events, without Spark.

Pieces of the file go to pyarrow's JSON reader, which knows the columns and refuses everything else. A piece that it
refuses is read line by line with the standard library: such a piece has a damaged line, a key of a later version or a
value of another type. Both ways give the same rows as `bronze`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.json

from leveret.errors import UnreadableTraceError
from leveret.pipeline.kernel.columns import NameColumn, table
from leveret.pipeline.kernel.schema import EVENTS, LINE, TEXT
from leveret.pipeline.sources import InspectedFile, inspect
from leveret.trace.jsonl import TraceLines, as_text, events_of, fitting
from leveret.trace.rows import Row
from leveret.trace.schema import COLUMNS

_LINE_WITH_EXTRA: Final = LINE.append(pa.field("_extra", pa.string()))


class TraceTables:
    """A reader of a trace file, piece by piece. A problem of the file's content is in `file`; nothing is raised."""

    def __init__(self, path: Path) -> None:
        # Whether it is cut is known once all of it was read.
        self.file = inspect(path)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the events in tables with the columns of `EVENTS`, a few megabytes of the file at a time."""
        if self.file.problem is not None:
            return
        content = TraceLines(self.file.path)
        has_damage = has_events = False
        try:
            for piece in content.pieces():
                rows, is_damaged = _parsed(piece)
                has_damage |= is_damaged
                has_events = True
                yield _events(self.file, rows)
        except (OSError, UnreadableTraceError) as error:
            # What was read stays, and is that of a cut file.
            has_damage = True
            if not has_events:
                self.file = replace(self.file, problem=str(error))
        self.file = replace(self.file, is_truncated=content.is_cut or has_damage)


def _parsed(piece: bytes) -> tuple[pa.Table, bool]:
    """Return the events among these lines, and whether a line is damaged."""
    rows = _parsed_by_arrow(piece)
    return (rows, False) if rows is not None else _parsed_by_line(piece)


def _parsed_by_arrow(piece: bytes) -> pa.Table | None:
    """Return the events if every line is an event in known columns, else None."""
    # pyarrow 26 crashes if the first value of a block is null (apache/arrow issue 47409), so there is one block, and it
    # begins with an object.
    if not piece.startswith(b"{") or not _is_utf8(piece):
        return None
    try:
        rows = pyarrow.json.read_json(
            pa.BufferReader(piece),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(piece) + 1),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=LINE, unexpected_field_behavior="error"),
        )
    except pa.ArrowInvalid:
        return None
    lines = piece.count(b"\n") + (not piece.endswith(b"\n"))
    if len(rows) != lines or rows["seq"].null_count or rows["kind"].null_count:
        return None
    return rows.append_column("_extra", pa.nulls(len(rows), pa.string()))


def _is_utf8(piece: bytes) -> bool:
    if piece.isascii():
        return True
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def _parsed_by_line(piece: bytes) -> tuple[pa.Table, bool]:
    found = list(events_of(piece))
    events = [_with_extra(event) for event in found if event is not None]
    return pa.Table.from_pylist(events, _LINE_WITH_EXTRA), len(events) < len(found)


def _with_extra(event: Row) -> Row:
    extra = {as_text(name): as_text(value) for name, value in event.items() if name not in COLUMNS}
    if extra:
        event["_extra"] = json.dumps(extra, ensure_ascii=False, separators=(",", ":"))
    return event


def _events(file: InspectedFile, rows: pa.Table) -> pa.Table:
    """Return the rows with the columns that come from the header."""
    count = len(rows)
    constants = {"run": file.run, "worker": file.worker, "started": fitting(file.header.get("started"), "string")}
    columns: dict[str, object] = {name: rows[name] for name in rows.column_names}
    columns["day"] = pa.array([file.day], pa.date32()).take(pa.array(np.zeros(count, np.int32)))
    for name, text in constants.items():
        is_null = text is None
        columns[name] = NameColumn(
            np.full(count, -1 if is_null else 0), pa.array([] if is_null else [text], pa.string())
        )
    return table(EVENTS, {**columns, "_worker": pa.nulls(count, TEXT)})
