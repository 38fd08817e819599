"""The writer's side of a trace file: complete lines, written straight to the system, and compressed at the end.

The process buffers nothing, so a killed process leaves everything it wrote, up to the last complete line. The file
belongs to the process that created it; in a forked child it accepts nothing. Several brokers may write to it at the
same time: each writes complete lines in one call, and numbers come from counters that any thread may use.
"""

from __future__ import annotations

import gzip
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Final

from leveret.clocks import SystemClock
from leveret.errors import LeveretWarning
from leveret.trace import events
from leveret.trace.jsonl import PACKED_SUFFIX, SUFFIX, header_line
from leveret.trace.rows import Row, json_text
from leveret.trace.shapes.file_shapes import FileShapes

# Level 6 compresses better than 1 at twice the cost. Other threads run while zlib works.
_LEVEL: Final = 6
_PIECE_BYTES: Final = 1 << 20
_MODE: Final = 0o600
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)


class TraceFile:
    """The trace file of one process."""

    def __init__(self, path: str, descriptor: int, header: dict[str, object]) -> None:
        """Hold an open file; call `create` to make one."""
        # The suffix changes when the file is compressed.
        self.path = path
        self.process: Final = os.getpid()
        self.header: Final = header
        self.is_closed = False
        # The first failure to write. After it the file is cut, and nothing more is written to it.
        self.failure: OSError | None = None
        self.next_seq: Final[Callable[[], int]] = count(1).__next__
        self.next_connection: Final[Callable[[], int]] = count(1).__next__
        # The ordinals of brokers; a broker gets a new one when it is reset.
        self.next_ordinal: Final[Callable[[], int]] = count(0).__next__
        # For each writer, the function that writes what it still holds. `close` calls them all.
        self.writers: Final[dict[object, Callable[[], None]]] = {}
        # What the messages in the file are like.
        self.shapes: Final = FileShapes()
        self._descriptor = descriptor
        self._clock: Final = SystemClock()

    @classmethod
    def create(cls, directory: str, worker: str, facts: Mapping[str, object]) -> TraceFile:
        """Create a file and write its header. Raises OSError if it cannot be created."""
        # A trace may hold what messages hold, so it is for this user only.
        os.makedirs(directory, mode=0o700, exist_ok=True)
        for attempt in count():
            # The name may be taken by another process of this worker, or by an earlier session of this process.
            name = worker if not attempt else f"{worker}-{os.getpid()}-{attempt}"
            path = os.path.join(directory, f"{facts['run']}.{name}{SUFFIX}")
            with suppress(FileExistsError):
                return cls._create(path, {**facts, "worker": name, "clock": "real"})
        raise AssertionError("there is always another name")

    @classmethod
    def _create(cls, path: str, header: dict[str, object]) -> TraceFile:
        if os.path.exists(_packed(path)):
            raise FileExistsError
        file = cls(path, os.open(path, _FLAGS, _MODE), header)
        try:
            file.append(header_line(header))
        except OSError:
            os.remove(path)
            raise
        return file

    @property
    def is_ours(self) -> bool:
        """Whether the file is open and this process created it; otherwise it accepts nothing."""
        return not self.is_closed and self.process == os.getpid()

    def write(self, lines: str) -> None:
        """Append complete lines. If the system does not accept them, warn once; the tests go on without a record."""
        if not self.is_ours or self.failure is not None:
            return
        try:
            self.append(lines)
        except OSError as error:
            warnings.warn(
                f"{self.path}: the trace is cut, because the rest cannot be written: {error.strerror}; make room, or "
                "use another trace_dir, and record again",
                LeveretWarning,
                stacklevel=2,
            )

    def append(self, lines: str) -> None:
        """Append complete lines. Raises OSError, which names the file, if the system does not accept them."""
        data = lines.encode("ascii")
        written_bytes = 0
        try:
            while written_bytes < len(data):
                written_bytes += os.write(self._descriptor, data[written_bytes:])
        except OSError as error:
            error.filename = self.path
            self.failure = error
            if data[:written_bytes].endswith(b"\n") or (not written_bytes and os.fstat(self._descriptor).st_size):
                # Without its end, the last line shows every reader that the file is cut.
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - 1)
            os.close(self._descriptor)
            raise

    def begin_test(self, test: str) -> None:
        """Write that a test begins; call it again for each retry."""
        self._write_row({**self._now(events.TEST_START), "test": test})

    def end_test(self, test: str, attrs: Mapping[str, object]) -> None:
        """Write how a test ended."""
        self._write_row({**self._now(events.TEST_END), "attrs": json_text(attrs), "test": test})

    def _now(self, kind: str) -> Row:
        now = self._clock.now()
        return {"kind": kind, "ts": now, "wall": now, "seq": self.next_seq()}

    def _write_row(self, row: Row) -> None:
        self.write(f"{json_text(row)}\n")

    def time_was_moved(self) -> None:
        """Note for the header that a broker's clock was held. The header is rewritten when the file ends."""
        self.header["clock"] = "virtual"

    def close(self) -> None:
        """Let all brokers write what they still hold, then compress the file. A second call does nothing."""
        if not self.is_ours:
            return
        while self.writers:
            _, write_the_rest = self.writers.popitem()
            write_the_rest()
        for row in self.shapes.words():
            self._write_row({**row, "seq": self.next_seq()})
        self._end()
        if self.failure is None:
            self._compress()

    def discard(self) -> None:
        """Close and delete the file, to which no event was written."""
        self._end()
        os.remove(self.path)

    def _end(self) -> None:
        self.is_closed = True
        if self.failure is None:
            os.close(self._descriptor)

    def _compress(self) -> None:
        packed = _packed(self.path)
        unfinished = f"{packed}.tmp"
        try:
            with (
                open(self.path, "rb") as source,
                open(unfinished, "wb", opener=_private) as target,
                gzip.GzipFile("", "wb", _LEVEL, target, mtime=0) as packer,
            ):
                source.readline()
                packer.write(header_line(self.header).encode("ascii"))
                while piece := source.read(_PIECE_BYTES):
                    packer.write(piece)
            os.replace(unfinished, packed)
        except OSError:
            # The disk may be full. The plain file holds the same events.
            with suppress(OSError):
                os.remove(unfinished)
            return
        try:
            os.remove(self.path)
        except OSError:
            # Windows keeps a file that another program reads. The same events in two files would count twice.
            os.remove(packed)
            return
        self.path = packed


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _MODE)


def _packed(path: str) -> str:
    return path.removesuffix(SUFFIX) + PACKED_SUFFIX
