"""The check for calls of `broker.aio` that the test never awaited, so that they did nothing.

Python only warns of such a coroutine, and the test passes. A coroutine that something still holds at the end, such as a
task, is not reported, nor is one that was cancelled or closed before it began.
"""

from __future__ import annotations

import warnings
from types import CoroutineType
from typing import Any, TypeAlias

from leveret.observe.calls.callers import calling_line
from leveret.observe.checks.finding import Finding

Call: TypeAlias = "CoroutineType[Any, Any, Any]"


class NeverAwaited:
    """The coroutines of a broker that have not begun, each with the line that made it."""

    def __init__(self) -> None:
        self._calls: list[tuple[Call, str, str | None]] = []

    def note(self, coroutine: Call, name: str) -> None:
        """Remember a new coroutine, the name of its call, and the line that this thread is at."""
        self._calls = [call for call in self._calls if _is_new(call[0])]
        self._calls.append((coroutine, name, calling_line()[1]))

    def left(self) -> list[Finding]:
        """Return a finding for each coroutine that nothing can await any more, and forget all of them."""
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
                    findings.append(_finding(name, line))
        return findings

    def forget(self) -> None:
        """Forget the coroutines, and leave them to Python's own warning."""
        self._calls.clear()


def _is_new(coroutine: Call) -> bool:
    return coroutine.cr_frame is not None and not coroutine.cr_running and not coroutine.cr_suspended


def _finding(name: str, line: str | None) -> Finding:
    at = "" if line is None else f", at {line}"
    return Finding("never_awaited", "/", f"{name}(...){at}: write await {name}(...)")
