"""A trace file as it is read: a header, and an event on each further line, plain or compressed.

A file whose writer was killed ends in the middle of a line, or of the compressed data: it has the events of its whole
lines, and says that it is cut. A file that is no trace, or one of a version not known here, is refused with its name.
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

# zlib reads the header of gzip with this, and writes it.
GZIP_WINDOW: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b"
_PIECE_BYTES: Final = 1 << 20


def header_line(facts: Mapping[str, object]) -> str:
    """The first line of a trace: TypeError for a fact that no header has."""
    unknown = [name for name in facts if name not in HEADER]
    if unknown:
        raise TypeError(f"a trace's header has no {', '.join(unknown)}; it has {', '.join(HEADER)}")
    told = {name: facts[name] for name in HEADER if facts.get(name) is not None}
    return f"{row_text({'leveret': 'trace', 'v': VERSION, **told})}\n"


class TraceReader:
    """This reads one file: `header` at once, then the events by iterating, each a dictionary of its columns."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Open it; UnreadableTraceError for what is no trace, OSError for what cannot be opened."""
        self.path: Final = fspath(path)
        # Whether the end is missing; known once all events were read.
        self.is_cut = False
        self._lines = self._read_lines()
        self.header: Final = self._read_header()

    def __iter__(self) -> Iterator[Row]:
        for number, line in enumerate(self._lines, start=2):
            yield self._parsed(line, number)

    def _read_header(self) -> Row:
        first = next(self._lines, None)
        if first is None:
            what = "its first line is cut" if self.is_cut else "it is empty"
            raise UnreadableTraceError(f"{self.path} is no trace: {what}")
        try:
            header = json.loads(first)
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("leveret") != "trace":
            raise UnreadableTraceError(f"{self.path} is no trace of leveret: its first line is no header")
        if header.get("v") != VERSION:
            raise UnreadableTraceError(
                f"{self.path} is a trace of version {header.get('v')!r}, and this leveret reads version {VERSION}; "
                "read it with the leveret that wrote it, or a newer one"
            )
        return header

    def _parsed(self, line: bytes, number: int) -> Row:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise UnreadableTraceError(f"{self.path}: line {number} is no event")
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
