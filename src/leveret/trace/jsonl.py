"""The reader of trace files: a header, then one event a line, plain or compressed with gzip.

If the writer was killed, the file ends in the middle of a line or of the compressed data. The reader then yields the
events of the complete lines and sets `is_cut`. It skips lines that are no events, as a damaged file has them. It raises
UnreadableTraceError, with the path, for a file that is not a trace, has an unknown version or a line without end. The
pipeline reads files by the same `TraceLines` and the same `events_of`.
"""

from __future__ import annotations

import gzip
import json
import os
import stat
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any, Final

from leveret.errors import UnreadableTraceError
from leveret.trace.rows import Row, json_text
from leveret.trace.schema import COLUMNS, HEADER, VERSION

SUFFIX: Final = ".jsonl"
PACKED_SUFFIX: Final = ".jsonl.gz"

_GZIP_MAGIC: Final = b"\x1f\x8b"
_PIECE_BYTES: Final = 2 << 20
# No line is longer: a body of 16 MiB, RabbitMQ's limit, grows to at most seven times its size.
LONGEST_LINE_BYTES: Final = 128 << 20
# The beginning of the first line. No other line begins like this.
HEADER_START: Final = '{"leveret"'
# The values that the columns of a type can hold.
_LIMITS: Final = {"long": 1 << 63, "int": 1 << 31}
_DECODER: Final = json.JSONDecoder()


def header_line(facts: Mapping[str, object]) -> str:
    """Return the first line of a trace. Raises TypeError if a fact is not a field of the header."""
    unknown = [name for name in facts if name not in HEADER]
    if unknown:
        raise TypeError(f"{', '.join(unknown)}: a trace's header has no such field; it has {', '.join(HEADER)}")
    fields = {name: facts[name] for name in HEADER if facts.get(name) is not None}
    return f"{json_text({'leveret': 'trace', 'v': VERSION, **fields})}\n"


def refuse_special(path: str | PathLike[str]) -> None:
    """Raise UnreadableTraceError if a path names a directory, a pipe or a device; reading those may never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise UnreadableTraceError(f"{fspath(path)} is not a regular file; name a trace file")


def as_text(value: object) -> str | None:
    """Return a value of JSON as text: a string itself, and anything else in JSON.

    Half of a pair of surrogates becomes "?", because UTF-8 cannot hold it.
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace").decode()


def fitting(value: object, kind: str) -> Any:
    """Return a value in the type of its column: other values become text in a column of text, and None elsewhere."""
    if kind == "string":
        return as_text(value)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -_LIMITS[kind] <= value < _LIMITS[kind] else None


def events_of(piece: bytes) -> Iterator[Row | None]:
    """Yield the event of each line, or None if the line is not an event. Blank lines and headers are skipped.

    A value of another type than its column's is changed by `fitting`. Unknown columns stay as they are.
    """
    for text in piece.decode(errors="replace").split("\n"):
        line = text.removesuffix("\r")
        if line and not line.startswith(HEADER_START):
            yield _event(line)


def _event(line: str) -> Row | None:
    try:
        # As Spark does, ignore what follows the first value of a line.
        values, _ = _DECODER.raw_decode(line.lstrip(" \t"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    fitted = {name: fitting(value, COLUMNS[name]) if name in COLUMNS else value for name, value in values.items()}
    event = {name: value for name, value in fitted.items() if value is not None or name not in COLUMNS}
    return event if "seq" in event and "kind" in event else None


class TraceReader:
    """The reader of one trace file. It reads `header` at once; iterate over it for the events, each a dictionary."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Open a file and read its header.

        Raises UnreadableTraceError if it is not a trace, and OSError if it cannot be opened.
        """
        self.path: Final = fspath(path)
        self._content: Final = TraceLines(self.path)
        self._has_damage = False
        header, problem = self._content.header()
        if problem is not None:
            raise UnreadableTraceError(f"{self.path} cannot be read as a trace: {problem}")
        self.header: Final = header

    @property
    def is_cut(self) -> bool:
        """Whether the end is missing or a line is damaged. It is known only after all events were read."""
        return self._content.is_cut or self._has_damage

    def __iter__(self) -> Iterator[Row]:
        for piece in self._content.pieces():
            # What follows the last line feed was cut off while it was written.
            for event in events_of(piece[: piece.rfind(b"\n") + 1]):
                if event is None:
                    self._has_damage = True
                else:
                    yield event


class TraceLines:
    """The lines of a trace file: the first, and then the others in pieces. `is_cut` is known once all were read."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Prepare to read; nothing is opened yet."""
        self.is_cut = False
        self._path: Final = fspath(path)
        self._chunks: Final = self._read_chunks()
        # What was read of the line that has not ended. Joining each chunk to the others would copy a piece many times.
        self._kept: list[bytes] = []
        self._has_head = False
        self._line_count = 0

    def head(self) -> bytes | None:
        """Return the first line, or None if it has no end."""
        self._has_head = True
        for chunk in self._chunks:
            start, end, rest = chunk.partition(b"\n")
            self._keep(start)
            if end:
                line, self._kept = b"".join(self._kept), [rest]
                self._line_count = 1
                return line
        self.is_cut |= any(self._kept)
        self._kept = []
        return None

    def header(self) -> tuple[Row, str | None]:
        """Return the header in the first line, and why the file cannot be used, or None."""
        line = self.head()
        if line is None:
            return {}, "its first line is cut off" if self.is_cut else "it is empty"
        try:
            # Editors and shells of Windows begin a file with this mark.
            header = json.loads(line.removeprefix(BOM_UTF8).decode())
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict) or header.get("leveret") != "trace":
            return {}, "its first line is not the header of a leveret trace"
        if type(header.get("v")) is not int or header["v"] != VERSION:
            return header, (
                f"it has version {header.get('v')!r} of the trace format, but this leveret reads version {VERSION}; "
                "use the leveret that wrote it, or a newer one"
            )
        return header, None

    def pieces(self) -> Iterator[bytes]:
        """Yield the content after the first line in pieces of whole lines; the last piece may end within a line.

        Raises UnreadableTraceError at a line longer than LONGEST_LINE_BYTES, so that memory is bounded.
        """
        if not self._has_head:
            self.is_cut |= self.head() is None
        kept_bytes = sum(map(len, self._kept))
        for chunk in self._chunks:
            self._keep(chunk)
            kept_bytes += len(chunk)
            if kept_bytes >= _PIECE_BYTES and b"\n" in chunk:
                content = b"".join(self._kept)
                end_of_line = content.rfind(b"\n") + 1
                self._kept, kept_bytes = [content[end_of_line:]], len(content) - end_of_line
                self._line_count += content.count(b"\n", 0, end_of_line)
                yield content[:end_of_line]
        rest = b"".join(self._kept)
        if rest:
            self.is_cut |= not rest.endswith(b"\n")
            yield rest

    def _keep(self, chunk: bytes) -> None:
        self._kept.append(chunk)
        if sum(map(len, self._kept)) > LONGEST_LINE_BYTES:
            number = self._line_count + 1 + sum(kept.count(b"\n") for kept in self._kept)
            self._kept = []
            raise UnreadableTraceError(
                f"{self._path}: line {number} has more than {LONGEST_LINE_BYTES >> 20} MB, as no event has; leave the "
                "file out"
            )

    def _read_chunks(self) -> Iterator[bytes]:
        refuse_special(self._path)
        with open(self._path, "rb") as file:
            is_packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            file.seek(0)
            source = gzip.GzipFile(fileobj=file) if is_packed else file
            try:
                while chunk := source.read1(_PIECE_BYTES):
                    yield chunk
            except (EOFError, gzip.BadGzipFile, zlib.error):
                # The compressed data is cut or damaged. What came before is used.
                self.is_cut = True
