"""What the page of a failed test shows beside its brokers: the code that failed, its traceback, and captured logs."""

from __future__ import annotations

import inspect
import linecache
import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.logging import caplog_records_key

from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.reports import diagnosing

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.page.story import Note

# Of longer functions and outputs, a page has the end.
_LINES_MAX: Final = 120
_NOTES_MAX: Final = 1_000
_STACKS_MAX: Final = 50
_WARNING: Final = 30


def code_of(item: pytest.Item, call: pytest.CallInfo[None]) -> dict[str, Any]:
    """Return the function of a test with the line that failed, and the frames of its error, the innermost last."""
    frames = [] if call.excinfo is None else [_frame(entry, item) for entry in _shown_frames(call.excinfo, item)]
    stacks = _stacks(item)
    shown: dict[str, Any] = {"root": str(item.config.invocation_params.dir), "traceback": frames, "stacks": stacks}
    function = getattr(item, "function", None)
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(function)) if function is not None else ([], 0)
    except (OSError, TypeError):
        return shown
    path = _name(inspect.getsourcefile(inspect.unwrap(function)) or "", item) if function is not None else ""
    last = first + len(lines)
    inside = [frame["line"] for frame in frames if frame["file"] == path and first <= frame["line"] < last]
    failed = inside[-1] if inside else None
    # Cut the beginning: the failing line is what matters.
    skipped = max(0, (len(lines) if failed is None else failed - first + 5) - _LINES_MAX)
    text = [line.rstrip("\n") for line in lines[skipped : skipped + _LINES_MAX]]
    return {**shown, "file": path, "first": first + skipped, "lines": text, "failed": failed}


def notes_of(item: pytest.Item, brokers: Iterable[Broker]) -> list[Note]:
    """Return what the test logged and what its workers printed, for the axis of time."""
    from leveret.page.story import Note

    records = [record for phase in item.stash.get(caplog_records_key, {}).values() for record in phase]
    notes = [
        Note(
            "log",
            f"{record.levelname} {record.name}: {_logged(record)}",
            wall=round(record.created * 1_000_000),
            is_bad=record.levelno >= _WARNING,
        )
        for record in records[-_NOTES_MAX:]
    ]
    for broker in brokers:
        for name, lines in harness_of(broker).printed():
            notes += [Note("output", f"{name}: {line}", at=at) for at, line in lines[-_NOTES_MAX:]]
    return notes


def _logged(record: logging.LogRecord) -> str:
    """Return the text that pytest's handler made of a record; of one that could not be formatted, what it was to be.

    Formatting it again could raise, or hang, once more.
    """
    text: str | None = vars(record).get("message")
    asked = record.msg if type(record.msg) is str else f"a {type(record.msg).__name__}"
    return f"{asked} (it could not be formatted)" if text is None else text


def _shown_frames(error: pytest.ExceptionInfo[BaseException], item: pytest.Item) -> list[Any]:
    """Return the frames of an error from the file of the test on, without those that hide themselves."""
    return [entry for entry in error.traceback.cut(path=item.path) if not entry.ishidden(error)]


def _frame(entry: Any, item: pytest.Item) -> dict[str, Any]:
    try:
        code = str(entry.statement).strip().partition("\n")[0]
    except (OSError, IndexError):
        code = ""
    return _shown_frame(item, str(entry.path), entry.lineno + 1, entry.name, code)


def _shown_frame(item: pytest.Item, path: str, line: int, function: str, code: str) -> dict[str, Any]:
    from leveret.observe.calls.callers import is_users

    return {"file": _name(path, item), "line": line, "function": function, "code": code, "is_yours": is_users(path)}


def _stacks(item: pytest.Item) -> list[dict[str, Any]]:
    """Return where threads and tasks stood when the test failed, the test's own first, each with the innermost last."""
    function = inspect.unwrap(getattr(item, "function", None) or (lambda: None)).__code__
    shown = []
    for stack in diagnosing.stacks_at_failure(item):
        is_test = any((path, name) == (function.co_filename, function.co_name) for path, _, name in stack.frames)
        frames = [
            _shown_frame(item, path, line, name, linecache.getline(path, line).strip())
            for path, line, name in reversed(stack.frames)
        ]
        shown.append({"name": "the test" if is_test else stack.name, "frames": frames[-_LINES_MAX:]})
    return sorted(shown, key=lambda one: one["name"] != "the test")[:_STACKS_MAX]


def _name(path: str, item: pytest.Item) -> str:
    """Return the name of a file from the folder in which pytest was called, as lines of events have it."""
    try:
        name = os.path.relpath(path, item.config.invocation_params.dir)
    except ValueError:
        return path
    return path if name.startswith("..") else name
