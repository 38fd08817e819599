"""Timers: every deadline of one clock, in order of deadline, then of setting.

It knows nothing of what it runs and asks no clock: whoever advances it says what time it is. A timer is cancelled by
forgetting its action; the husk leaves the heap when its deadline comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

Action = Callable[[], None]
# Later than every instant there is.
NEVER: Final = 1 << 63


class Timer:
    """One deadline: run `action` at `deadline` (microseconds), unless cancelled before."""

    __slots__ = ("action", "deadline", "is_recurring")

    def __init__(self, deadline: int, action: Action, *, is_recurring: bool = False) -> None:
        self.deadline = deadline
        self.action: Action | None = action
        # A tick that is set again whenever it ran is never what a leap in time aims at.
        self.is_recurring = is_recurring

    def cancel(self) -> None:
        """Never run it. Cancelling twice, or after it ran, is fine."""
        self.action = None


class Timers:
    """The deadlines of one clock."""

    __slots__ = ("_heap", "_sequence", "first_at")

    def __init__(self) -> None:
        # Nothing is due before this instant. An attribute, since it is asked for at every turn.
        self.first_at = NEVER
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0

    def add(self, deadline: int, action: Action, *, is_recurring: bool = False) -> Timer:
        """Run `action` once `deadline` (an instant in microseconds) has come."""
        timer = Timer(deadline, action, is_recurring=is_recurring)
        self._sequence += 1
        heapq.heappush(self._heap, (deadline, self._sequence, timer))
        self.first_at = self._heap[0][0]
        return timer

    def next_deadline(self) -> int | None:
        """The nearest instant at which something is due."""
        heap = self._heap
        if heap and heap[0][2].action is None:
            while heap and heap[0][2].action is None:
                heapq.heappop(heap)
            self.first_at = heap[0][0] if heap else NEVER
        return heap[0][0] if heap else None

    def next_event_at(self) -> int | None:
        """The nearest deadline that is not a recurring tick."""
        nearest = self.next_deadline()
        if nearest is None or not self._heap[0][2].is_recurring:
            return nearest
        deadlines = [deadline for deadline, _, timer in self._heap if timer.action and not timer.is_recurring]
        return min(deadlines, default=None)

    def pop_due(self, now: int) -> Timer | None:
        """The next timer whose deadline has come, taken out."""
        heap = self._heap
        found = None
        while heap and heap[0][0] <= now and found is None:
            timer = heapq.heappop(heap)[2]
            if timer.action is not None:
                found = timer
        self.first_at = heap[0][0] if heap else NEVER
        return found
