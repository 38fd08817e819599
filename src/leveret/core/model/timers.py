"""Timers: every deadline of one clock, by deadline and then by the order in which they were set.

Timers know nothing about their actions and read no clock: the caller passes the time. Cancelling a timer only clears
its action; the timer leaves the heap when its deadline comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

Action = Callable[[], object]
# Later than every other instant.
NEVER: Final = 1 << 63


class Timer:
    """One deadline: run `action` at `deadline` (an instant in microseconds), unless cancelled before."""

    __slots__ = ("action", "deadline", "is_recurring")

    def __init__(self, deadline: int, action: Action, *, is_recurring: bool = False) -> None:
        self.deadline = deadline
        self.action: Action | None = action
        # A tick that is set again each time it runs. Moving the clock to the next event skips it.
        self.is_recurring = is_recurring

    def cancel(self) -> None:
        """Never run it. Cancelling it twice, or after it ran, has no effect."""
        self.action = None


class Timers:
    """The deadlines of one clock."""

    __slots__ = ("_heap", "_sequence", "first_at")

    def __init__(self) -> None:
        # Nothing is due before this instant. It is an attribute because the loop reads it in every turn.
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

    @property
    def pending(self) -> list[Timer]:
        """The timers that were not cancelled, in no order."""
        return [timer for _, _, timer in self._heap if timer.action is not None]

    def next_deadline(self) -> int | None:
        """Return the nearest instant at which something is due, None if nothing is."""
        heap = self._heap
        if heap and heap[0][2].action is None:
            while heap and heap[0][2].action is None:
                heapq.heappop(heap)
            self.first_at = heap[0][0] if heap else NEVER
        return heap[0][0] if heap else None

    def next_event_at(self) -> int | None:
        """Return the nearest deadline that is not a recurring tick, None if there is none."""
        nearest = self.next_deadline()
        if nearest is None or not self._heap[0][2].is_recurring:
            return nearest
        deadlines = [deadline for deadline, _, timer in self._heap if timer.action and not timer.is_recurring]
        return min(deadlines, default=None)

    def pop_due(self, now: int) -> Timer | None:
        """Remove and return the next timer whose deadline has come, None if there is none."""
        heap = self._heap
        due = None
        while heap and heap[0][0] <= now and due is None:
            timer = heapq.heappop(heap)[2]
            if timer.action is not None:
                due = timer
        self.first_at = heap[0][0] if heap else NEVER
        return due
