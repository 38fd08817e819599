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
from pytest_leveret.contract import INI, locks_of
from pytest_leveret.contract.comparing import LockChange, lock_changes
from pytest_leveret.contract.lock import Lock, LockError, parse, read, update
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
        self._written: list[LockChange] = []
        try:
            self._locked = self._read()
        except FileNotFoundError:
            raise ValueError(f"{path} does not exist; write it with {_WRITE}, and keep it in git") from None
        if mode != "check" and not path.parent.is_dir():
            raise ValueError(f"the folder of {path} does not exist; create it, or correct the path")
        super().__init__(config, path.name)

    def _reader(self, broker: Broker) -> Observer:
        return Observer(broker)

    def _read(self) -> Lock:
        """Return the lock that the file holds now; an empty one, if it is written for the first time or anew."""
        try:
            return read(self._path)
        except FileNotFoundError:
            if self._mode == "check":
                raise
        except LockError as error:
            if self._mode != "rewrite" or error.is_recoverable:
                raise
        return Lock()

    def _problem_of(self, shown: Lock) -> list[str]:
        """Return what a publisher of a test has sent that can break a consumer."""
        breaks = self._breaks(shown) if self._mode == "check" else []
        intro = f"this test sends what can break a consumer, by {self._path.name}:"
        return [intro, *(f"  {change}" for change in breaks)] if breaks else []

    def _breaks(self, shown: Lock) -> list[str]:
        return [str(change) for change in self._changes(shown) if change.breaks]

    def _changes(self, shown: Lock) -> list[LockChange]:
        """Return the differences of what clients have sent and declared. What the test itself sends changes nothing."""
        sent = {key: message for key, message in shown.messages.items() if message.publishers}
        changes = lock_changes(self._locked, replace(shown, messages=sent).folded(self._locked))
        # What a part of the tests does not show is no difference.
        return [change for change in changes if not change.is_absence]

    def _end(self, session: pytest.Session) -> None:
        """Write the lock. One that could not be written fails the run as a lock does that cannot be read."""
        if self._mode == "check":
            return
        if self._seen == Lock():
            stays = "stays as it was" if self._path.exists() else "was not written"
            shown = "no test that passed has shown a message on a broker of leveret's fixtures"
            self._problem = f"{self._path.name} {stays}, because {shown}"
            return
        before = session.exitstatus
        if self._mode == "rewrite" and (before or self._unread):
            why = "the run failed" if before else "not all messages could be read"
            self._problem = f"{self._path.name} was not rewritten, because {why}"
            return
        session.exitstatus = before or pytest.ExitCode.USAGE_ERROR
        try:
            update(self._path, self._changed)
            session.exitstatus = before
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._problem = f"{self._path.name} was not written: {reason}"

    def _changed(self) -> Lock:
        """Return what this run makes of the lock, to which another run may have added meanwhile."""
        before = self._read()
        if self._mode == "rewrite":
            changed = self._seen
            changed.keep_needs(before)
        else:
            changed = deepcopy(before)
            changed.merge(self._seen)
        # By the texts, because the counts of what was seen are no difference.
        self._written = [*lock_changes(parse(before.text()), parse(changed.text()))]
        return changed

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
        self._write_breaks(terminalreporter)
        if self._problem:
            terminalreporter.write_line(f"leveret: {self._problem}")
        elif not locks_of(self._config):
            ini = self._config.inipath
            name, quote = ("pytest.ini", "") if ini is None else (ini.name, '"' if ini.suffix == ".toml" else "")
            terminalreporter.write_line(
                f"leveret: no run checks {self._path.name} yet; set {INI} = {quote}{self._path.name}{quote} in {name}"
            )

    def _write_breaks(self, reporter: pytest.TerminalReporter) -> None:
        """Write what has failed tests, once for all of them: a line for each field."""
        if not self._wrong:
            return
        sent = Lock()
        for shown in self._wrong.values():
            sent.merge(shown)
        lines = self._breaks(sent)
        tests = count_text(len(self._wrong), "test")
        reporter.section(f"leveret: {self._path.name}, {count_text(len(lines), 'break')}: sent in {tests}")
        write_lines(reporter, lines, _SHOWN_MAX)
        reporter.write_line(f"If that is intended, accept it with {_WRITE}, and look at the consumers first.")
