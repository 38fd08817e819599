"""Clocks: the sources of a broker's `now`, in microseconds since the epoch.

The core gets instants as arguments and never reads a clock; the server reads one of these. `SystemClock` is the real
one, and stays real in a test that freezes or moves Python's clocks. Otherwise TTLs would stand still because a test
wanted a fixed date. A broker uses `HoldableClock`, which runs with the real one until a test holds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Final, Protocol

# Returns the processor time that the calling thread has used, in nanoseconds.
CpuClock = Callable[[], int]


def unpatched(module_name: str) -> ModuleType:
    """Return a copy of a module that Python has in C, as Python made it, whatever has been patched since.

    gevent and eventlet replace names in the modules that all code imports. freezegun replaces functions that it finds
    in any module, even under another name. A copy of the module is out of their reach.
    """
    spec = import_module(module_name).__spec__
    assert spec is not None
    assert spec.loader is not None
    module = spec.loader.create_module(spec)
    assert module is not None
    spec.loader.exec_module(module)
    return module


class ClockSource(Protocol):
    """A clock that never goes backwards."""

    def now(self) -> int:
        """Return microseconds since the epoch."""
        ...


class _RealTime:
    """The counters of the standard library: `perf_counter_ns`, counted from the date at import.

    They stay in the copy of their module, because freezegun would replace them under any name of this one.
    """

    def __init__(self) -> None:
        module = unpatched("time")
        self.perf_counter_ns = module.perf_counter_ns
        # A system without threads, such as a browser, may lack it.
        self.thread_time_ns: CpuClock = getattr(module, "thread_time_ns", None) or module.process_time_ns
        # On a busy machine a thread may lose its turn between two reads. The quickest of some is the closest.
        reads = [(module.perf_counter_ns(), module.time_ns(), module.perf_counter_ns()) for _ in range(5)]
        before, date, after = min(reads, key=lambda read: read[2] - read[0])
        self.zero_ns: int = date - (before + after) // 2


_REAL: Final = _RealTime()
thread_cpu_ns: Final = _REAL.thread_time_ns


class SystemClock:
    """Real time: monotonic, counted from the date when this module was imported."""

    _real = _REAL

    def now(self) -> int:
        """Return microseconds since the epoch."""
        real = self._real
        now_ns: int = real.zero_ns + real.perf_counter_ns()
        return now_ns // 1000


# How many of its latest moves a clock remembers.
_MOVES_MAX: Final = 10_000


class HoldableClock:
    """A clock that runs with `source` until it is held, and then stands still except for `jump`.

    Once released, it runs on from where it was, so it never goes backwards and never jumps by itself.
    """

    def __init__(self, source: ClockSource) -> None:
        # The latest moves, oldest first: its own time and that of its source, whenever it was held, moved or released.
        self.moves: Final[deque[tuple[int, int]]] = deque(maxlen=_MOVES_MAX)
        self._source = source
        # How far this clock is ahead of its source while it runs.
        self._offset_us = 0
        # Where it stands while it is held.
        self._held_at: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether the clock stands still."""
        return self._held_at is not None

    def now(self) -> int:
        """Return microseconds since the epoch."""
        held_at = self._held_at
        return self._source.now() + self._offset_us if held_at is None else held_at

    def hold(self) -> None:
        """Stop the clock. Does nothing if it is held already."""
        if self._held_at is None:
            self._held_at = self.now()
            self._note_move()

    def release(self) -> None:
        """Let the clock run on from where it is. Does nothing if it runs."""
        if self._held_at is not None:
            self._offset_us = self._held_at - self._source.now()
            self._held_at = None
            self._note_move()

    def skip(self, span_us: int) -> None:
        """Move the clock on by `span_us` microseconds, without holding or releasing it."""
        if span_us < 0:
            raise ValueError(f"a clock does not go backwards by {-span_us} microseconds")
        self._note_move()
        if self._held_at is None:
            self._offset_us += span_us
        else:
            self._held_at += span_us
        self._note_move()

    def jump(self, to: int) -> None:
        """Hold the clock and move it to the instant `to`. Raises ValueError if that is in the past."""
        self.hold()
        self._note_move()
        if to < self.now():
            raise ValueError(f"a clock does not go backwards: {to} is before {self.now()}")
        self._held_at = to
        self._note_move()

    def set(self, to: int, *, is_held: bool) -> None:
        """Put the clock at an instant, which may be in the past: its broker goes back there, with all that it knows."""
        self.moves.clear()
        self._offset_us = to - self._source.now()
        self._held_at = to if is_held else None
        self._note_move()

    def _note_move(self) -> None:
        self.moves.append((self.now(), self._source.now()))
