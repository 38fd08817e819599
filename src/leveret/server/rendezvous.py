"""Where other threads meet the loop: they have something done on its thread, or wait for its next turn.

Both wait at a gate, a lock that one side shuts and the other opens, so nobody polls; a waiter that is interrupted
leaves its gate to be opened for nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from leveret.server import native

T = TypeVar("T")


class Turns:
    """This counts the turns of a loop in which something may have changed, and wakes who waits for the next."""

    def __init__(self) -> None:
        self.count = 0
        self._sleepers: list[Callable[[], None]] = []

    def complete(self) -> None:
        """This ends a turn."""
        self.count += 1
        if self._sleepers:
            sleepers, self._sleepers = self._sleepers, []
            for wake in sleepers:
                wake()

    def wait_beyond(self, count: int, timeout: float) -> None:
        """This waits for a turn after number `count`, at most `timeout` seconds."""
        gate = native.allocate_lock()
        gate.acquire()
        self._sleepers.append(gate.release)
        # The turn may have ended while we lined up; the gate is then opened later for nobody.
        if self.count == count:
            native.wait_at(gate, max(timeout, 0))


class Request(Generic[T]):
    """This is an action that another thread wants done on the loop's thread."""

    __slots__ = ("_action", "_done", "_error", "_result")

    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self._done = native.allocate_lock()
        self._done.acquire()
        self._result: T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """This does it, on the loop's thread."""
        try:
            self._result = self._action()
        except Exception as error:
            self._error = error

    def answer(self) -> None:
        """This lets whoever asked go on."""
        self._done.release()

    def outcome(self) -> T:
        """This waits for the answer and returns what the action returned, or raises what it raised."""
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]
