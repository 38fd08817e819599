"""The writer of one broker: it keeps what happened until there is time to write it.

The tap appends to a list and nothing else. What was tapped is written some milliseconds later on the loop's thread,
many events at a time: so a test pays little, a killed process has lost little, and little is kept. Real time is noted
once for what happened in one turn of the loop.

It takes no lock: whoever calls holds the broker's.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from os import PathLike, fspath
from os.path import abspath, exists, isdir
from typing import TYPE_CHECKING, Final

from leveret.time.sources import SystemClock
from leveret.trace.lines import Lines
from leveret.trace.redaction import Redaction
from leveret.trace.rows import Numbering
from leveret.trace.run import file_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from leveret.time.sources import HoldableClock
    from leveret.trace.events import RawEvent, Tap
    from leveret.trace.trace_file import TraceFile

# Written when so many events wait, or the first of them has waited so long.
EVENTS_MAX: Final = 8192
WAIT_US: Final = 50_000


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What a test wants in a trace file, and where that is to lie."""

    directory: str
    redaction: Redaction
    keeps_bodies: bool

    @classmethod
    def of(cls, directory: str | PathLike[str], *, bodies: bool, redact: Iterable[str] | str) -> TraceOptions:
        """From what a user gives; ValueError for what cannot be a directory, or a name to redact."""
        given = fspath(directory)
        place = abspath(given)
        if not given or (exists(place) and not isdir(place)):
            raise ValueError(f"trace_dir={given!r} is no directory; a trace file is made inside one")
        # One text may name several; taken for an iterable it would be letters.
        names = redact.replace(",", " ").split() if isinstance(redact, str) else redact
        return cls(place, Redaction(names), bodies)


class Writer:
    """This writes what one broker's tap is told to the file of its process in a directory."""

    def __init__(
        self,
        options: TraceOptions,
        *,
        lock: AbstractContextManager[object],
        clock: HoldableClock,
        facts: Mapping[str, object],
    ) -> None:
        """Nothing is opened yet; lock and clock are the broker's, `facts` its part of the header."""
        self.file: TraceFile | None = None
        self._options: Final = options
        self._lock: Final = lock
        self._broker_clock: Final = clock
        self._facts: Final = facts
        self._clock: Final = SystemClock()
        self._lines: Lines | None = None
        self._pending: Final[list[RawEvent]] = []
        # How many events were pending at the end of a turn, and when that was.
        self._turns: Final[list[tuple[int, int]]] = []
        # When the first pending event was noticed.
        self._since = 0
        # Whether the broker's clock was held when something happened.
        self.is_moved = False
        self.tap: Final[Tap] = self._pending.append
        # Gets every event that was written, where it is kept as well.
        self.hand_on: Callable[[list[RawEvent]], None] | None = None

    @property
    def directory(self) -> str:
        """Where the file is to lie."""
        return self._options.directory

    def open(self) -> TraceFile:
        """Make the file, or join that of the process; OSError when it cannot be made."""
        options = self._options
        file = file_in(options.directory, self._facts)
        if file is not self.file or self._lines is None:
            self.file = file
            self._lines = Lines(self._new_numbering(file), options.redaction, keeps_bodies=options.keeps_bodies)
        file.writers[self] = self._write_the_rest
        return file

    def close(self) -> None:
        """Write what is pending: the broker has stopped. It may start again."""
        self.write()
        if self.file is not None:
            self.file.writers.pop(self, None)

    def _write_the_rest(self) -> None:
        # Who ends the process has no use for an error; the file says that it is cut.
        with self._lock, suppress(OSError):
            self.write()

    def turned(self, timeout: float | None) -> float | None:
        """Note the time of what happened in a turn of the loop, and write if it is time to; how long it may sleep.

        OSError when the file cannot be written. Hot: once per turn.
        """
        count = len(self._pending)
        if not count:
            return timeout
        now = self._clock.now()
        if not self._turns:
            self._since = now
        if not self._turns or self._turns[-1][0] != count:
            self._turns.append((count, now))
            if self._broker_clock.is_held:
                self.is_moved = True
        left_us = self._since + WAIT_US - now
        if count >= EVENTS_MAX or left_us <= 0:
            self.write()
            return timeout
        left = left_us / 1_000_000
        return left if timeout is None else min(left, timeout)

    def write(self) -> None:
        """Write what is pending; OSError when the file cannot be written, and then it is gone."""
        pending = self._pending
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
        if self.is_moved or self._broker_clock.is_held:
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
        """The broker was reset: it numbers from 1 again."""
        self.write()
        if self.file is not None and self._lines is not None:
            self._lines.begin_anew(self._new_numbering(self.file))

    @staticmethod
    def _new_numbering(file: TraceFile) -> Numbering:
        return Numbering(file.next_ordinal(), file.next_connection)
