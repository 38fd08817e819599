"""Fewer and smaller messages: which of the messages that a scenario publishes a failure needs.

A scenario that publishes less with `broker.publish` counts as smaller if it passes without a fault and fails alike with
the faults, in the same line of the user's code. A fault stays at the step of its message, whatever its number becomes.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Final

from leveret.exploration.run import LEFT_OUT, Cuts, Run, ScenarioRunner
from leveret.exploration.schedule import Placement, Schedule, Seen
from leveret.observe.calls.callers import raising_line
from leveret.trace.events import preview

# How often the scenario is tried with less, and how long that may take.
_TRIES: Final = 40
_TIME_S: Final = 20.0
# Bodies of up to this size stay as they are, because a reader knows messages by them.
_SMALL_BYTES: Final = 32


class Shrinker:
    """The search for a smaller run that fails alike. Afterwards, `failed` and `plain` are the smallest runs."""

    def __init__(self, runner: ScenarioRunner, failed: Run, plain: Run) -> None:
        self.failed = failed
        self.plain = plain
        self._execute: Final = runner
        # A plain run that takes much longer than the whole one waits for a message that was left out.
        self._execute_plain: Final = replace(runner, limit=min(runner.limit, 2 + 2 * plain.seconds))
        self._cuts: dict[int, int] = {}
        self._left_count = _TRIES
        self._limit: Final = perf_counter() + _TIME_S

    def shrink(self) -> bool:
        """Return whether a smaller run fails alike."""
        bodies = [body for _, body in self.plain.published]
        self._leave_out(list(range(len(bodies))))
        for number, body in enumerate(bodies):
            if len(body) > _SMALL_BYTES and number not in self._cuts:
                self._shorten(number, len(body))
        return bool(self._cuts)

    @property
    def needed(self) -> list[str]:
        """The messages that are needed, in words."""
        lines = []
        for number, (routing_key, body) in enumerate(self.plain.published):
            kept = self._cuts.get(number, len(body))
            if kept != LEFT_OUT:
                cut = f", cut from {len(body):,} bytes" if kept < len(body) else ""
                lines.append(f"{preview(body[:kept])}, key {routing_key!r}{cut}")
        return lines

    def _leave_out(self, needed: list[int]) -> None:
        """Leave out what is not needed: halves first, then smaller and smaller parts, but never all."""
        size = len(needed) // 2
        while size:
            start = 0
            while start < len(needed) and len(needed) > size:
                part = needed[start : start + size]
                if self._fails_alike(dict.fromkeys(part, LEFT_OUT)):
                    del needed[start : start + size]
                else:
                    start += size
            size //= 2

    def _shorten(self, number: int, size: int) -> None:
        """Cut a body to the fewest bytes, if less never fails where more passes."""
        low, high = -1, size
        while high - low > 1:
            half = (low + high) // 2 if low >= 0 else 0
            if self._fails_alike({number: half}):
                high = half
            else:
                low = half

    def _fails_alike(self, cuts: Cuts) -> bool:
        if not self._left_count or perf_counter() > self._limit:
            return False
        self._left_count -= 1
        cuts = {**self._cuts, **cuts}
        plain = self._execute_plain(Schedule(), cuts)
        if plain.has_failed:
            return False
        placements = tuple(_moved(it, self.plain, plain) for it in self.failed.schedule.placements)
        failed = self._execute(Schedule(placements), cuts)
        if failed.missing or _manner(failed) != _manner(self.failed):
            return False
        self._cuts, self.failed, self.plain = cuts, failed, plain
        return True


def _moved(placement: Placement, before: Run, now: Run) -> Placement:
    """Return a fault at the step that means the same in a run of fewer messages."""
    seen = next((it for it in before.seen if it.step == placement.step), None)
    if seen is None:
        return placement
    alike_before, alike_now = ([it.step for it in run.seen if _means_the_same(it, seen)] for run in (before, now))
    if not alike_now:
        return placement
    return replace(placement, step=alike_now[min(alike_before.index(placement.step), len(alike_now) - 1)])


def _means_the_same(one: Seen, other: Seen) -> bool:
    return one.about == other.about and replace(one.step, nth=0) == replace(other.step, nth=0)


def _manner(run: Run) -> tuple[object, ...]:
    """Return how a run has failed; equal if it failed in the same way."""
    error = run.error
    return (run.hang, bool(run.losses)) if error is None else (type(error), raising_line(error))
