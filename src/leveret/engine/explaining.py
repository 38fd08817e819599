"""The explanations of failures on one broker: one at a time, and what several threads ask at once is composed once.

An explanation reads all events of a test. If many waits end at the same moment, clients must still get their turns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

from leveret.clocks import SystemClock
from leveret.server import native

if TYPE_CHECKING:
    from leveret.observe.texts.report import Report
    from leveret.story.timeline import Timeline
    from leveret.trace.ring import KeptEvents

_REAL: Final = SystemClock()


class Explaining:
    """The turn to explain a failure. A thread that holds the broker's lock must not wait for it."""

    def __init__(self) -> None:
        self._turn = native.reentrant_lock()
        # What the last report was about, and when it was begun.
        self._last: tuple[Hashable, int, Report] | None = None
        # The last timeline, and of which events it is.
        self._timeline: tuple[Hashable, Timeline] | None = None

    def __enter__(self) -> None:
        self._turn.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._turn.__exit__(*error)

    def timeline(self, recorder: KeptEvents, part: str | None = None) -> Timeline:
        """Return what the recorded events show: one value, until others come. The caller holds the broker's lock.

        It is never changed, so it may be read without the lock. `part` names the part of the broker that they are of.
        """
        from leveret.story.timeline import Timeline

        events = part, recorder.recorded_count, len(recorder)
        if self._timeline is None or self._timeline[0] != events:
            self._timeline = events, Timeline(recorder.raw())
        return self._timeline[1]

    def forget(self) -> None:
        """Forget what happened in the last test."""
        self._last = self._timeline = None

    def report(self, about: Hashable, compose: Callable[[], Report], since: int | None = None) -> Report:
        """Return a report of this moment or later, or since then in microseconds: another thread's, or a new one."""
        asked_at = _REAL.now() if since is None else since
        with self:
            if self._last is None or self._last[0] != about or self._last[1] < asked_at:
                began_at = _REAL.now()
                self._last = about, began_at, compose()
            return self._last[2]
