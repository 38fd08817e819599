"""Clocks: where a broker's `now` comes from, in microseconds since the epoch.

The core is handed instants and never asks; the server asks one of these. `SystemClock` is the real one, and stays real
in a test that froze or moved Python's clocks: a broker whose TTLs stood still because a test wanted a fixed date would
be a riddle. `HoldableClock` is the one a broker uses: it runs with the real one until a test holds it.
"""

from __future__ import annotations

import time
from typing import Protocol


class ClockSource(Protocol):
    """This tells an instant; it never goes backwards."""

    def now(self) -> int:
        """This returns microseconds since the epoch."""
        ...


class _RealTime:
    """The counters of the standard library, out of reach of freezegun and time-machine.

    freezegun replaces functions it finds in modules (also those it finds under another name, hence not in ours) and
    time-machine patches what tells the date. So we read `perf_counter_ns`, from a copy of the module made here, and
    count from the date at import.
    """

    def __init__(self) -> None:
        spec = time.__spec__
        assert spec is not None
        assert spec.loader is not None
        module = spec.loader.create_module(spec)
        assert module is not None
        spec.loader.exec_module(module)
        self.perf_counter_ns = module.perf_counter_ns
        self.zero_ns: int = module.time_ns() - module.perf_counter_ns()


class SystemClock:
    """This is real time: monotonic, counted from the date when this module was imported."""

    _real = _RealTime()

    def now(self) -> int:
        """This returns microseconds since the epoch."""
        real = self._real
        now_ns: int = real.zero_ns + real.perf_counter_ns()
        return now_ns // 1000


class ManualClock:
    """This stands still until it is moved, and refuses to go backwards."""

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        """This returns the instant it was last moved to."""
        return self._now

    def jump(self, to: int) -> None:
        """This moves to the instant `to`; ValueError when that is in the past."""
        if to < self._now:
            raise ValueError(f"a clock does not go backwards: {to} is before {self._now}")
        self._now = to

    def advance(self, span_us: int) -> None:
        """This moves on by `span_us` microseconds; ValueError when that is negative."""
        self.jump(self._now + span_us)


class HoldableClock:
    """This runs with `source` until it is held; while held it stands still but for `jump`.

    Released, it runs on from where it stood, so that it never goes backwards and never leaps by itself.
    """

    def __init__(self, source: ClockSource) -> None:
        self._source = source
        # How far this clock is ahead of its source while it runs.
        self._offset_us = 0
        self._held: ManualClock | None = None

    @property
    def is_held(self) -> bool:
        """This says whether the clock stands still."""
        return self._held is not None

    def now(self) -> int:
        """This returns microseconds since the epoch."""
        held = self._held
        return self._source.now() + self._offset_us if held is None else held.now()

    def hold(self) -> None:
        """This stops the clock where it is; nothing happens when it is held already."""
        if self._held is None:
            self._held = ManualClock(self.now())

    def release(self) -> None:
        """This lets the clock run on from where it stands; nothing happens when it runs."""
        if self._held is not None:
            self._offset_us = self._held.now() - self._source.now()
            self._held = None

    def skip(self, span_us: int) -> None:
        """This moves the clock on by `span_us` microseconds and neither holds nor releases it."""
        if span_us < 0:
            raise ValueError(f"a clock does not go backwards by {-span_us} microseconds")
        if self._held is None:
            self._offset_us += span_us
        else:
            self._held.advance(span_us)

    def jump(self, to: int) -> None:
        """This holds the clock and moves it to the instant `to`; ValueError when that is in the past."""
        self.hold()
        assert self._held is not None
        self._held.jump(to)
