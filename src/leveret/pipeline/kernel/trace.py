"""Reading a trace file into a table of events, without Spark.

Pieces of the file go to pyarrow's JSON reader, which knows the columns and refuses everything else. A piece that it
refuses is read line by line with the standard library: such a piece has a damaged line, a key of a later version or a
value of another type. Both ways give the same rows as `bronze`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq

from leveret.pipeline.kernel.columns import Names, as_text, table
from leveret.pipeline.kernel.schema import EVENTS, LINE
from leveret.pipeline.sources import HEADER_START, TraceFile, inspect_head
from leveret.trace.schema import COLUMNS

# How much of a file is parsed at a time. A line may be longer.
_PIECE_BYTES: Final = 2 << 20
_PARQUET_ROWS: Final = 250_000
_COMPRESSED_BYTES: Final = 64 << 10
# The steps in which the last bytes before a damaged place are decompressed.
_CAREFUL_BYTES: Final = 256
# The values that the columns of a type can hold.
_LIMITS: Final = {"long": 1 << 63, "int": 1 << 31}
_DECODER: Final = json.JSONDecoder()
_LINE_WITH_EXTRA: Final = LINE.append(pa.field("_extra", pa.string()))


@dataclass(frozen=True)
class Trace:
    """A trace file and its events, in the columns of `schema.EVENTS`. A refused file has no events."""

    file: TraceFile
    events: pa.Table


class TraceReader:
    """A reader of a trace file, piece by piece. A problem of the file's content is in `file`; nothing is raised."""

    def __init__(self, path: Path) -> None:
        # Whether it is cut is known once all of it was read.
        self.file = inspect_head(path)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the events in tables with the columns of `schema.EVENTS`, a few megabytes of the file at a time."""
        if self.file.problem is not None:
            return
        yield from self._tables_of_parquet() if self.file.is_parquet else self._tables_of_lines()

    def _tables_of_lines(self) -> Iterator[pa.Table]:
        content = _Content(Path(self.file.path))
        has_damage = False
        for piece in content.pieces():
            rows, is_damaged = _parsed(piece)
            has_damage |= is_damaged
            yield _events(self.file, rows)
        self.file = replace(self.file, is_truncated=content.is_cut or has_damage)

    def _tables_of_parquet(self) -> Iterator[pa.Table]:
        with pq.ParquetFile(self.file.path) as file:
            for batch in file.iter_batches(_PARQUET_ROWS):
                rows = pa.Table.from_batches([batch])
                columns = [
                    rows[field.name].cast(field.type)
                    if field.name in rows.column_names
                    else pa.nulls(len(rows), field.type)
                    for field in EVENTS
                ]
                yield _valid(pa.Table.from_arrays(columns, schema=EVENTS))


def read(path: Path) -> Trace:
    """Read a whole trace file."""
    reader = TraceReader(path)
    parts = list(reader.tables())
    return Trace(reader.file, pa.concat_tables(parts) if parts else EVENTS.empty_table())


def _valid(rows: pa.Table) -> pa.Table:
    is_event = pc.and_(pc.is_valid(rows["seq"]), pc.is_valid(rows["kind"]))
    return rows if pc.all(is_event).as_py() is not False else rows.filter(is_event)


class _Content:
    """The lines of a file after its header. `is_cut` is known once all pieces were read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_cut = False

    def pieces(self) -> Iterator[bytes]:
        """Yield the content in pieces of whole lines; the last piece may end within a line."""
        is_header = True
        # Chunks are joined once there are enough of them: joining each to what is kept would copy a piece many times.
        kept: list[bytes] = []
        kept_bytes = 0
        for chunk in self._chunks():
            if is_header:
                head, end, chunk = (b"".join(kept) + chunk).partition(b"\n")
                is_header = not end
                kept, kept_bytes = [head] if is_header else [], 0
            kept.append(chunk)
            kept_bytes += len(chunk)
            if is_header or kept_bytes < _PIECE_BYTES:
                continue
            content = b"".join(kept)
            end_of_line = content.rfind(b"\n") + 1
            kept, kept_bytes = [content[end_of_line:]], len(content) - end_of_line
            if end_of_line:
                yield content[:end_of_line]
        rest = b"".join(kept)
        if rest and not is_header:
            yield rest
        self.is_cut |= is_header or (bool(rest) and not rest.endswith(b"\n"))

    def _chunks(self) -> Iterator[bytes]:
        with open(self._path, "rb") as file:
            if not self._path.name.endswith(".gz"):
                while chunk := file.read(_PIECE_BYTES):
                    yield chunk
                return
            stream = _Stream()
            while (chunk := file.read(_COMPRESSED_BYTES)) and not stream.is_damaged:
                yield stream.decompress(chunk)
            self.is_cut = not stream.is_whole


class _Stream:
    """A stream of gzip members. A damaged place ends it; everything before that place is used."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(31)
        self._has_begun = False
        self.is_damaged = False

    @property
    def is_whole(self) -> bool:
        """Whether the stream ended with the end of a member."""
        return not self.is_damaged and not self._has_begun

    def decompress(self, chunk: bytes) -> bytes:
        """Return the content of the next bytes of the file."""
        found = b""
        while chunk and not self.is_damaged:
            self._has_begun = True
            before = self._member.copy()
            try:
                found += self._member.decompress(chunk)
            except zlib.error:
                self.is_damaged = True
                return found + _before_damage(before, chunk)
            chunk = self._member.unused_data
            if self._member.eof:
                self._member, self._has_begun = zlib.decompressobj(31), False
                # Padding may follow the last member.
                chunk = chunk.lstrip(b"\0")
        return found


def _before_damage(member: Any, chunk: bytes) -> bytes:
    found = b""
    try:
        for begin in range(0, len(chunk), _CAREFUL_BYTES):
            found += member.decompress(chunk[begin : begin + _CAREFUL_BYTES])
    except zlib.error:
        pass
    return found


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
    events, has_damage = [], False
    for line in piece.decode(errors="replace").split("\n"):
        line = line.removesuffix("\r")
        if not line or line.startswith(HEADER_START):
            continue
        event = _event(line)
        if event is None:
            has_damage = True
        else:
            events.append(event)
    return pa.Table.from_pylist(events, _LINE_WITH_EXTRA), has_damage


def _event(line: str) -> dict[str, Any] | None:
    """Return the event of a line, or None if the line is not an event."""
    try:
        # As Spark does, ignore what follows the first value of a line.
        values, _ = _DECODER.raw_decode(line.lstrip(" \t"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    event = {name: _fitting(values[name], kind) for name, kind in COLUMNS.items() if name in values}
    if event.get("seq") is None or event.get("kind") is None:
        return None
    extra = {as_text(name): as_text(value) for name, value in values.items() if name not in COLUMNS}
    if extra:
        event["_extra"] = json.dumps(extra, ensure_ascii=False, separators=(",", ":"))
    return event


def _fitting(value: object, kind: str) -> object:
    """Return a value in the type of its column: other values become text in a column of text, and null elsewhere."""
    if kind == "string":
        return as_text(value)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -_LIMITS[kind] <= value < _LIMITS[kind] else None


def _events(file: TraceFile, rows: pa.Table) -> pa.Table:
    """Return the rows with the columns that come from the header."""
    every = np.zeros(len(rows), np.int32)
    constants = {"run": file.run, "worker": file.worker}
    columns: dict[str, object] = {name: rows[name] for name in rows.column_names}
    columns["day"] = pa.array([file.day], pa.date32()).take(pa.array(every))
    columns.update({name: Names(every, pa.array([text])) for name, text in constants.items()})
    return table(EVENTS, columns)
