"""The guard around all that the plugin does for reports, pages, traces and summaries.

An error in there would end the whole run, or hide the failure that it should explain. It becomes a line instead: in the
report of the test, or at the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, Final

import pytest

# What could not be done, of a test or of the run.
LINES: Final = pytest.StashKey[list[str]]()
# The hooks that are about the run, or about a test whose report is complete.
_OF_RUN: Final = (
    *("pytest_runtest_logreport", "pytest_warning_recorded"),
    *("pytest_sessionfinish", "pytest_terminal_summary", "pytest_testnodedown"),
)
# What ends the run, as the user wants it.
_ENDING: Final = (KeyboardInterrupt, pytest.exit.Exception, GeneratorExit)


class Guarded:
    """A `with` block in which the plugin does something of its own: "leveret could not `what`" if that fails.

    Ctrl-C ends the run as ever. A time-out that is raised while a phase of the test runs is the test's. Later it
    becomes the failure of a test that had not failed.
    """

    __slots__ = ("_ended", "_place", "_what")

    def __init__(
        self,
        what: str,
        place: pytest.Item | pytest.Config,
        ended: pytest.TestReport | pytest.CallInfo[Any] | None = None,
    ) -> None:
        """Keep the line with a test, or with the run. `ended` is the phase that has ended; None while one runs."""
        self._what: Final = what
        self._place: Final = place
        self._ended: Final = ended

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        runs = self._ended is None and isinstance(self._place, pytest.Item)
        if error is None or isinstance(error, _ENDING) or (runs and not isinstance(error, Exception)):
            return False
        # Imported here because only what fails needs it.
        from leveret.wording import safe_text

        text = safe_text(error, str, 300).partition("\n")[0]
        note(self._place, f"leveret could not {self._what}: {type(error).__name__}{': ' if text else ''}{text}")
        ended = self._ended
        if isinstance(ended, pytest.TestReport) and not ended.failed and isinstance(error, pytest.fail.Exception):
            ended.outcome, ended.longrepr = "failed", text
        return True


def note(place: pytest.Item | pytest.Config, *lines: str) -> None:
    """Keep lines with a test, or with the run, each once."""
    kept = place.stash.setdefault(LINES, [])
    kept.extend(line for line in lines if line not in kept)


def register(config: pytest.Config, part: object, name: str, what: str) -> None:
    """Register a part of the plugin. What it does for the run, beside the tests, is guarded: `what` that is for."""
    for hook in _OF_RUN:
        if (act := getattr(part, hook, None)) is not None:
            setattr(part, hook, _guarded(act, what, config))
    config.pluginmanager.register(part, name)


def _guarded(act: Callable[..., object], what: str, config: pytest.Config) -> Callable[..., object]:
    @wraps(act)
    def guarded(*arguments: object, **named: object) -> object:
        with Guarded(what, config):
            return act(*arguments, **named)
        return None

    return guarded
