"""A run with documents: each test's messages are checked, and the end lists what no test has sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from leveret.wording import count_text
from pytest_leveret.contract.documents.checking import Checker
from pytest_leveret.contract.documents.messages import MessageChecking, Shown, Violation
from pytest_leveret.contract.documents.reading import TOLERANCES, Document, read
from pytest_leveret.contract.watching import Watch, write_lines

if TYPE_CHECKING:
    from leveret import Broker

_SHOWN_MAX: Final = 20


class DocumentWatch(Watch[Shown]):
    """The part of the plugin that checks messages against documents."""

    _kind = Shown
    _output = "leveret_documents"

    def __init__(self, config: pytest.Config, paths: list[Path]) -> None:
        """Read the documents. Raises OSError or ValueError if one cannot be read."""
        try:
            self._documents: Final[list[Document]] = [read(path) for path in paths]
            self._checkers: Final = [Checker(document) for document in self._documents]
        except FileNotFoundError as error:
            raise ValueError(
                f"{error.filename} does not exist; name a document by its path from {config.rootpath}"
            ) from None
        super().__init__(config, " and ".join(document.name for document in self._documents))

    def _reader(self, broker: Broker) -> MessageChecking:
        return MessageChecking(broker, self._checkers)

    def _problem_of(self, shown: Shown) -> list[str]:
        """Return the messages of a test that are not as a document says."""
        if not shown.violations:
            return []
        names = dict.fromkeys(self._documents[each.document].name for each in shown.violations)
        lines = [line for violation in shown.violations for line in self._lines(violation)]
        if len(lines) > 2 * _SHOWN_MAX:
            lines[2 * _SHOWN_MAX :] = [f"  and {len(lines) // 2 - _SHOWN_MAX} more"]
        return [
            f"this test sends what {' and '.join(names)} does not allow:",
            *lines,
        ]

    def _wrong_by(self, number: int) -> list[str]:
        """Return a line for each place in a document that messages of failed tests do not fit: the first of them."""
        lines: dict[object, str] = {}
        for violation in (each for shown in self._wrong.values() for each in shown.violations):
            if violation.document == number:
                line, place = self._lines(violation)
                lines.setdefault((violation.key, violation.publisher, place), line.strip())
        return [*lines.values()]

    def _lines(self, violation: Violation) -> tuple[str, str]:
        sender = "" if violation.publisher is None else f" of {violation.publisher}"
        place = self._documents[violation.document].located(violation.finding.place)
        return f"  {violation.key}{sender}: {violation.finding}", f"    by {place}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write what was not allowed, the channels that no test has used, what is in none, and what was tolerated."""
        for number, document in enumerate(self._documents):
            unused = [each.name for each in document.channels if (number, each.name) not in self._seen.used]
            unknown = sorted(name for index, name in self._seen.unknown if index == number)
            wrong = self._wrong_by(number)
            if wrong or unused or unknown or document.tolerated:
                terminalreporter.section(f"leveret: {document.name}")
            advice = "change the message, or the document if the message is right"
            _write(terminalreporter, f"sent, and not allowed; {advice}", wrong)
            count = f"{len(unused)} of {count_text(len(document.channels), 'channel')}"
            _write(terminalreporter, f"{count}, to which no test that passed has sent a message", unused)
            _write(terminalreporter, "sent, and in none of its channels", unknown)
            _write(terminalreporter, "accepted although AsyncAPI has it otherwise", [*_tolerances(document)])


def _tolerances(document: Document) -> list[str]:
    """Return a line for each kind of thing that was tolerated, with its name and the first place."""
    lines = []
    for name, meaning in TOLERANCES.items():
        places = [place for each, place in document.tolerated if each == name]
        if places:
            more = f" and {len(places) - 1} more" if places[1:] else ""
            lines.append(f"{name}: {meaning} ({places[0].pointer}{more})")
    return lines


def _write(reporter: pytest.TerminalReporter, title: str, lines: list[str]) -> None:
    if lines:
        reporter.write_line(f"{title}:")
    write_lines(reporter, lines, _SHOWN_MAX)
