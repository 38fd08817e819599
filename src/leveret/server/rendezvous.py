"""The meeting point of other threads and the loop: they run something on its thread, or wait for its next turn.

Both wait at something shut that the other side opens, so no thread polls. A request takes the loop a turn and waits for
no client, so it blocks its thread. The next turn may be long in coming, so greenlets run meanwhile
(`native.shut_gate`). The gate of an interrupted waiter is still opened later, to no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from leveret.server import native

T = TypeVar("T")


class Turns:
    """A counter of the turns of a loop. It wakes threads that wait for the next turn."""

    def __init__(self, take: Callable[[float], None] | None = None) -> None:
        """`take` takes a turn on the waiting thread, if the loop has none of its own."""
        self.count = 0
        self._take = take
        self._sleepers: list[Callable[[], None]] = []

    def complete(self) -> None:
        """Count a turn that has ended, and wake the waiting threads."""
        self.count += 1
        if self._sleepers:
            sleepers, self._sleepers = self._sleepers, []
            for wake in sleepers:
                wake()

    def wait_beyond(self, count: int, timeout: float) -> None:
        """Wait for a turn after number `count`, at most `timeout` seconds."""
        if self._take is not None:
            self._take(timeout)
            return
        gate = native.shut_gate()
        self._sleepers.append(gate.open)
        # The turn may have ended in the meantime. The gate is then opened later, to no effect.
        gate.wait(max(timeout, 0) if self.count == count else 0)


class LoopAction(Generic[T]):
    """An action that another thread wants to run on the loop's thread."""

    __slots__ = ("_action", "_done", "_error", "_result")

    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self._done = native.allocate_lock()
        self._done.acquire()
        self._result: T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the action, on the loop's thread."""
        try:
            self._result = self._action()
        except Exception as error:
            self._error = error

    def answer(self) -> None:
        """Let the thread that made the request continue."""
        self._done.release()

    def outcome(self) -> T:
        """Wait for the answer, and return or raise what the action did."""
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]
