"""The check for calls of `broker.aio` whose outcome the test never saw, because it did not await them or their task.

Python only warns of such a coroutine, and the test passes. A coroutine that something still holds at the end, such as a
task, is not reported, nor is one that was cancelled or closed before it began. If a call fails in a task, and nothing
retrieves the error of that task, Python only logs it, and the test passes as well.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeAlias

from leveret.observe.calls.callers import calling_line, raising_line
from leveret.observe.checks.finding import Finding

if TYPE_CHECKING:
    import asyncio

    from leveret.trace.caller import Caller

Call: TypeAlias = "CoroutineType[Any, Any, Any]"


class NeverAwaited:
    """The coroutines of a broker that have not begun, each with the line that made it."""

    def __init__(self) -> None:
        self._calls: list[tuple[Call, str, Caller | None]] = []
        # The tasks in which a call has failed.
        self._failed: list[asyncio.Task[object]] = []

    def note(self, coroutine: Call, name: str) -> None:
        """Remember a new coroutine, the name of its call, and the line that this thread is at."""
        self._calls = [call for call in self._calls if _is_new(call[0])]
        self._calls.append((coroutine, name, calling_line()[1]))

    def note_failure(self) -> None:
        """Remember the task of asyncio in which a call fails now."""
        asyncio = sys.modules.get("asyncio")
        with suppress(RuntimeError):
            task = None if asyncio is None else asyncio.current_task()
            self._failed += [] if task is None else [task]

    def left(self) -> list[Finding]:
        """Return a finding for each coroutine and each failed task that nothing has awaited, and forget all of them."""
        # Python has no public name for the flag that an error was not retrieved.
        failed = [_failure(task) for task in self._failed if getattr(task, "_log_traceback", False)]
        self._failed.clear()
        return self._left_coroutines() + failed

    def _left_coroutines(self) -> list[Finding]:
        if not self._calls:
            return []
        # Imported here because most tests make no such call.
        from weakref import ref

        findings = []
        # Python's own warning would repeat the finding.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            while self._calls:
                coroutine, name, line = self._calls.pop(0)
                is_new, kept = _is_new(coroutine), ref(coroutine)
                del coroutine
                if is_new and kept() is None:
                    findings.append(Finding("never_awaited", "/", {"call": name, "line": line}))
        return findings

    def forget(self) -> None:
        """Forget the coroutines and tasks, and leave them to Python's own warning."""
        self._calls.clear()
        self._failed.clear()


def _is_new(coroutine: Call) -> bool:
    return coroutine.cr_frame is not None and not coroutine.cr_running and not coroutine.cr_suspended


def _failure(task: asyncio.Task[object]) -> Finding:
    # To ask for the error also keeps Python from logging it.
    error = task.exception()
    assert error is not None
    what = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return Finding("never_awaited", "/", {"line": raising_line(error), "error": what}, kind="failed_unawaited")
