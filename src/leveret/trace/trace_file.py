"""A trace file as it is written: whole lines, straight to the system, and compressed at its end.

Nothing waits in this process, so whatever was written is there when the process is killed, up to the last whole line.
It belongs to the process that made it: in a forked child it takes nothing. Several brokers may write to it at a time;
each writes whole lines at one go, and numbers come from counters that any thread may ask.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Final

from leveret.time.sources import SystemClock
from leveret.trace import events
from leveret.trace.jsonl import GZIP_WINDOW, PACKED_SUFFIX, SUFFIX, header_line
from leveret.trace.rows import Row, attrs_text, row_text

# Smaller at twice the cost of the fastest; the loop over the file lets other threads go on meanwhile.
_LEVEL: Final = 6
_PIECE_BYTES: Final = 1 << 20
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)


class TraceFile:
    """This is the file of one process."""

    def __init__(self, path: str, descriptor: int, header: dict[str, object]) -> None:
        """`create` makes one."""
        # Where it lies; compressed it has another ending.
        self.path = path
        self.process: Final = os.getpid()
        self.header: Final = header
        self.is_closed = False
        self.next_seq: Final[Callable[[], int]] = count(1).__next__
        self.next_connection: Final[Callable[[], int]] = count(1).__next__
        # Of a broker, anew when it is reset.
        self.next_ordinal: Final[Callable[[], int]] = count(0).__next__
        # Who writes to it: asked for the rest before it ends.
        self.writers: Final[dict[object, Callable[[], None]]] = {}
        self._descriptor = descriptor
        self._clock: Final = SystemClock()

    @classmethod
    def create(cls, directory: str, worker: str, facts: Mapping[str, object]) -> TraceFile:
        """A new file with its header; OSError when it cannot be made."""
        os.makedirs(directory, exist_ok=True)
        for attempt in count():
            # Another process of this worker may be there, or an earlier session of this process.
            name = worker if not attempt else f"{worker}-{os.getpid()}-{attempt}"
            path = os.path.join(directory, f"{facts['run']}.{name}{SUFFIX}")
            with suppress(FileExistsError):
                return cls._create(path, {**facts, "worker": name, "clock": "real"})
        raise AssertionError("there is always another name")

    @classmethod
    def _create(cls, path: str, header: dict[str, object]) -> TraceFile:
        if os.path.exists(_packed(path)):
            raise FileExistsError
        file = cls(path, os.open(path, _FLAGS, 0o644), header)
        file.write(header_line(header))
        return file

    @property
    def is_ours(self) -> bool:
        """Whether it takes anything: it is open, and this is the process that made it."""
        return not self.is_closed and self.process == os.getpid()

    def write(self, lines: str) -> None:
        """Add whole lines; OSError when the system does not take them."""
        if not self.is_ours:
            return
        octets = memoryview(lines.encode("ascii"))
        try:
            while octets:
                octets = octets[os.write(self._descriptor, octets) :]
        except OSError:
            # A line may be cut: nothing may follow it.
            self._end()
            raise

    def begin_test(self, test: str) -> None:
        """Write that a test begins; once more when it is tried again."""
        self._write_row({**self._now(events.TEST_START), "test": test})

    def end_test(self, test: str, attrs: Mapping[str, object]) -> None:
        """Write how a test ended."""
        self._write_row({**self._now(events.TEST_END), "attrs": attrs_text(attrs), "test": test})

    def _now(self, kind: str) -> Row:
        now = self._clock.now()
        return {"kind": kind, "ts": now, "wall": now, "seq": self.next_seq()}

    def _write_row(self, row: Row) -> None:
        self.write(f"{row_text(row)}\n")

    def time_was_moved(self) -> None:
        """Say in the header that some broker's clock was held: it is written anew when the file ends."""
        self.header["clock"] = "virtual"

    def close(self) -> None:
        """End it: brokers write what they have, then it is compressed. Twice is fine."""
        if not self.is_ours:
            return
        while self.writers:
            _, write_the_rest = self.writers.popitem()
            write_the_rest()
        if self.is_ours:
            self._end()
            self._compress()

    def discard(self) -> None:
        """End it and take it away: nothing was written to it."""
        self._end()
        os.remove(self.path)

    def _end(self) -> None:
        self.is_closed = True
        os.close(self._descriptor)

    def _compress(self) -> None:
        packed = _packed(self.path)
        unfinished = f"{packed}.tmp"
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
        try:
            with open(self.path, "rb") as source, open(unfinished, "wb") as target:
                source.readline()
                target.write(packer.compress(header_line(self.header).encode("ascii")))
                while piece := source.read(_PIECE_BYTES):
                    target.write(packer.compress(piece))
                target.write(packer.flush())
            os.replace(unfinished, packed)
        except OSError:
            # No room for it: the plain file says the same.
            with suppress(OSError):
                os.remove(unfinished)
            return
        os.remove(self.path)
        self.path = packed


def _packed(path: str) -> str:
    return path.removesuffix(SUFFIX) + PACKED_SUFFIX
