"""A run with a contract: each test adds what it shows, or is checked against the lock.

The controller of pytest-xdist writes the file and prints the notes.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from leveret.wording import count_text
from pytest_leveret.contract.comparing import Change, lock_changes
from pytest_leveret.contract.lock import Lock, parse, read
from pytest_leveret.contract.observing import Observer
from pytest_leveret.contract.watching import Watch, write_lines

if TYPE_CHECKING:
    from leveret import Broker

_SHOWN_MAX: Final = 50
_WRITE: Final = "pytest --leveret-contract=write"


class Contract(Watch[Lock]):
    """The part of the plugin that writes or checks a lock."""

    _kind = Lock
    _output = "leveret_contract"

    def __init__(self, config: pytest.Config, mode: str, path: Path) -> None:
        self._mode: Final = mode
        self._path: Final = path
        self._problem = ""
        self._written: list[Change] = []
        self._locked = self._read()
        super().__init__(config)

    def _reader(self, broker: Broker) -> Observer:
        return Observer(broker)

    def _read(self) -> Lock:
        try:
            return read(self._path)
        except FileNotFoundError:
            if self._mode != "check":
                return Lock()
            raise pytest.UsageError(
                f"leveret_contract: {self._path} does not exist; write it with {_WRITE}, and keep it in git"
            ) from None
        except (OSError, ValueError) as error:
            if self._mode == "rewrite":
                return Lock()
            raise pytest.UsageError(f"leveret_contract: {error}") from None

    def _problem_of(self, shown: Lock) -> list[str]:
        """Return what a publisher of a test has sent that can break a consumer."""
        changes = [change for change in self._changes(shown) if change.breaks] if self._mode == "check" else []
        if not changes:
            return []
        return [
            f"this test sends what can break a consumer, by {self._path.name}:",
            *(line for change in changes for line in _lines(change)),
            f"If that is intended, accept it with {_WRITE}, and look at the consumers first.",
        ]

    def _changes(self, shown: Lock) -> list[Change]:
        """Return the differences of what clients have sent and declared. What the test itself sends changes nothing."""
        sent = {key: message for key, message in shown.messages.items() if message.publishers}
        return [*lock_changes(self._locked, replace(shown, messages=sent), is_part=True)]

    def _end(self, *, has_passed: bool) -> None:
        """Write the lock."""
        if self._mode == "check":
            return
        if self._seen == Lock():
            if not self._path.exists():
                shown = "no test that passed has shown a message on a broker of leveret's fixtures"
                self._problem = f"{self._path.name} was not written, because {shown}"
            return
        if self._mode == "rewrite" and not has_passed:
            self._problem = f"{self._path.name} was not rewritten, because the run failed"
            return
        before, old_text = deepcopy(self._locked), self._locked.text()
        if self._mode == "rewrite":
            self._seen.keep_needs(before)
            self._locked = self._seen
        else:
            self._locked.merge(self._seen)
        text = self._locked.text()
        if text != old_text:
            # By the text, because the counts of what was seen are no difference.
            self._written = [*lock_changes(before, parse(text))]
        self._locked.write(self._path)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write what has changed."""
        if self._mode == "check":
            changes, word = [change for change in self._changes(self._seen) if not change.breaks], "not in it"
        else:
            changes, word = self._written, "changed"
        lines = [str(change) for change in changes]
        if lines:
            terminalreporter.section(f"leveret: {self._path.name}, {count_text(len(lines), 'note')}: {word}")
        write_lines(terminalreporter, lines, _SHOWN_MAX)
        if self._problem:
            terminalreporter.write_line(f"leveret: {self._problem}")
        self._write_gap(terminalreporter, self._path.name)


def _lines(change: Change) -> list[str]:
    return [f"  {change.subject}: {change.text}", *(f"    {reason}" for reason in change.breaks)]
