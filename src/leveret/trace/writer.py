"""The writer of one broker: it buffers events and writes them to the trace file a few milliseconds later.

The tap only appends to a list. The loop's thread writes the list later, many events at a time. So recording costs a
test little, a killed process loses little, and the buffer stays small. Real time is read once for all events of one
turn of the loop.

The writer takes no lock: its caller holds the broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from os import PathLike, fspath
from os.path import abspath, exists, isdir
from typing import Final

from leveret.clocks import HoldableClock, SystemClock
from leveret.errors import LeveretWarning
from leveret.trace.events import RawEvent, Tap
from leveret.trace.lines import Lines
from leveret.trace.redaction import Redaction
from leveret.trace.rows import FileNumbering
from leveret.trace.run import file_in
from leveret.trace.trace_file import TraceFile

# The writer writes when this many events are buffered, or when the first has waited this long.
EVENTS_MAX: Final = 8192
WAIT_US: Final = 50_000


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What to put into a trace file, and in which directory."""

    directory: str
    redaction: Redaction
    keeps_bodies: bool

    @classmethod
    def of(cls, directory: str | PathLike[str], *, bodies: bool, redact: Iterable[str] | str) -> TraceOptions:
        """Return the options for a user's arguments.

        Raises ValueError if `directory` names no directory, or if `redact` has a name without a letter or digit.
        """
        given = fspath(directory)
        place = abspath(given)
        if not given or (exists(place) and not isdir(place)):
            raise ValueError(
                f"trace_dir={given!r} is {'a file' if given else 'empty'}; it must be a directory, "
                "which is created if it does not exist"
            )
        return cls(place, Redaction(redact), bodies)


class Writer:
    """The writer of one broker's events to the trace file of the process."""

    def __init__(
        self,
        options: TraceOptions,
        *,
        lock: AbstractContextManager[object],
        clock: HoldableClock,
        facts: Mapping[str, object],
    ) -> None:
        """Prepare to write; nothing is opened yet.

        `lock` and `clock` are the broker's, and `facts` is its part of the header.
        """
        self.file: TraceFile | None = None
        self.options: Final = options
        self._lock: Final = lock
        self._broker_clock: Final = clock
        self._facts: Final = facts
        self._clock: Final = SystemClock()
        self._lines: Lines | None = None
        # The events that are not written yet.
        self.pending: Final[list[RawEvent]] = []
        # For each turn, the number of events that were pending at its end, and the time of that.
        self._turns: Final[list[tuple[int, int]]] = []
        # The end of the turn in which the first pending event happened.
        self._since = 0
        # Whether the broker's clock was held while an event happened.
        self._is_moved = False
        self.tap: Final[Tap] = self.pending.append
        # Receives every event that was written, if a recorder keeps events too.
        self.hand_on: Callable[[list[RawEvent]], None] | None = None

    def open(self) -> TraceFile:
        """Return the trace file of the process, and create it if needed. Raises OSError if it cannot be created."""
        options = self.options
        file = file_in(options.directory, self._facts)
        if file is not self.file or self._lines is None:
            self.file = file
            numbering = FileNumbering(file.next_ordinal(), file.next_connection)
            self._lines = Lines(numbering, options.redaction, keeps_bodies=options.keeps_bodies, shapes=file.shapes)
        file.writers[self] = self._write_at_exit
        return file

    def close(self) -> None:
        """Write what is pending, because the broker has stopped. It may start again."""
        self.write()
        if self.file is not None:
            self.file.writers.pop(self, None)

    def _write_at_exit(self) -> None:
        # A filter may turn the warning into an error, which an ending process could not handle.
        with self._lock, suppress(LeveretWarning):
            self.write()

    def turned(self, timeout: float | None) -> float | None:
        """Note the time of a finished turn, write if it is due, and return how long the loop may sleep, in seconds.

        Hot: once per turn.
        """
        count = len(self.pending)
        if not count:
            return timeout
        now = self._clock.now()
        if not self._turns:
            self._since = now
        if not self._turns or self._turns[-1][0] != count:
            self._turns.append((count, now))
            if self._broker_clock.is_held:
                self._is_moved = True
        left_us = self._since + WAIT_US - now
        if count >= EVENTS_MAX or left_us <= 0:
            self.write()
            return timeout
        left = left_us / 1_000_000
        return left if timeout is None else min(left, timeout)

    def write(self) -> None:
        """Write what is pending. If the file cannot be written, it warns, and the events are lost."""
        pending = self.pending
        if not pending:
            return
        raw_events, turns = pending.copy(), self._turns.copy()
        pending.clear()
        self._turns.clear()
        if self.hand_on is not None:
            self.hand_on(raw_events)
        file = self.file if self.file is not None else self.open()
        if not file.is_ours:
            return
        assert self._lines is not None
        lines = self._lines
        if self._is_moved or self._broker_clock.is_held:
            file.time_was_moved()
        turns.append((len(raw_events), self._clock.now()))
        text: list[str] = []
        start = 0
        for end, wall in turns:
            if end > start:
                text += lines.write(raw_events[start:end], wall, file.next_seq)
                start = end
        file.write("".join(text))

    def begin_anew(self) -> None:
        """Write what is pending and start a new numbering: the broker was reset and counts from 1 again."""
        self.write()
        if self.file is not None and self._lines is not None:
            self._lines.begin_anew(FileNumbering(self.file.next_ordinal(), self.file.next_connection))
