"""The reader of trace files: a header, then one event a line, plain or compressed with gzip.

If the writer was killed, the file ends in the middle of a line or of the compressed data. The reader then yields the
events of the complete lines and sets `is_cut`. It raises UnreadableTraceError, with the path, for a file that is not a
trace or has an unknown version.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Final, cast

from leveret.errors import UnreadableTraceError
from leveret.trace.rows import Row, row_text
from leveret.trace.schema import HEADER, VERSION

SUFFIX: Final = ".jsonl"
PACKED_SUFFIX: Final = ".jsonl.gz"

# This value of `wbits` makes zlib read and write gzip's header.
GZIP_WINDOW: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b"
_PIECE_BYTES: Final = 1 << 20


def header_line(facts: Mapping[str, object]) -> str:
    """Return the first line of a trace. Raises TypeError if a fact is not a field of the header."""
    unknown = [name for name in facts if name not in HEADER]
    if unknown:
        raise TypeError(f"{', '.join(unknown)}: a trace's header has no such field; it has {', '.join(HEADER)}")
    fields = {name: facts[name] for name in HEADER if facts.get(name) is not None}
    return f"{row_text({'leveret': 'trace', 'v': VERSION, **fields})}\n"


class TraceReader:
    """The reader of one trace file. It reads `header` at once; iterate over it for the events, each a dictionary."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Open a file and read its header.

        Raises UnreadableTraceError if it is not a trace, and OSError if it cannot be opened.
        """
        self.path: Final = fspath(path)
        # Whether the end is missing. It is known only after all events were read.
        self.is_cut = False
        self._lines = self._read_lines()
        self.header: Final = self._read_header()

    def __iter__(self) -> Iterator[Row]:
        for number, line in enumerate(self._lines, start=2):
            yield self._parsed(line, number)

    def _read_header(self) -> Row:
        first = next(self._lines, None)
        if first is None:
            what = "its first line is cut off" if self.is_cut else "it is empty"
            raise UnreadableTraceError(f"{self.path} is not a trace: {what}; leave it out")
        try:
            header = json.loads(first)
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict) or header.get("leveret") != "trace":
            raise UnreadableTraceError(
                f"{self.path} is not a trace of leveret: its first line is not a header; leave it out"
            )
        if header.get("v") != VERSION:
            raise UnreadableTraceError(
                f"{self.path} is a trace of version {header.get('v')!r}, but this leveret reads version {VERSION}; "
                "read it with the leveret that wrote it, or with a newer one"
            )
        return header

    def _parsed(self, line: bytes, number: int) -> Row:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UnreadableTraceError(f"{self.path}: line {number} is not an event: every line must be a JSON object")
        return cast("Row", row)

    def _read_lines(self) -> Iterator[bytes]:
        rest = b""
        for piece in self._read_pieces():
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
        if rest:
            self.is_cut = True

    def _read_pieces(self) -> Iterator[bytes]:
        with open(self.path, "rb") as file:
            piece = file.read(_PIECE_BYTES)
            if not piece.startswith(_GZIP_MAGIC):
                while piece:
                    yield piece
                    piece = file.read(_PIECE_BYTES)
                return
            unpacker = zlib.decompressobj(GZIP_WINDOW)
            while piece:
                try:
                    yield unpacker.decompress(piece)
                except zlib.error:
                    break
                piece = file.read(_PIECE_BYTES)
            if not unpacker.eof:
                self.is_cut = True
