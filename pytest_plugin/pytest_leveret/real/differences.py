"""The summary of a run on a real RabbitMQ: what ran only on leveret, and what came out differently there.

Each run on leveret leaves the outcomes of its tests in pytest's cache. A run on a server compares its own with them.
Reports come from the workers of pytest-xdist too, so all of this is the controller's.
"""

from __future__ import annotations

from typing import Final

import pytest

from pytest_leveret.brokers import brokers_of
from pytest_leveret.real import server_of
from pytest_leveret.real.server import NEEDS

_CACHED: Final = "leveret/outcomes"
_MARK: Final = "leveret_has_broker"


def note_broker(item: pytest.Item, report: pytest.TestReport) -> None:
    """Mark the report of a test that had a broker."""
    if brokers_of(item):
        setattr(report, _MARK, True)


class Differences:
    """The outcomes of the tests of this run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._outcomes: dict[str, str] = {}
        # Why a test could not run on the server.
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test."""
        reason = _reason(report)
        if reason is not None:
            self._reasons[report.nodeid] = reason
            self._outcomes.pop(report.nodeid, None)
        elif getattr(report, _MARK, False) and (report.when == "call" or report.failed):
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep the outcomes on leveret for a run on a server."""
        cache = getattr(session.config, "cache", None)
        is_worker = hasattr(session.config, "workerinput")
        if cache is not None and not is_worker and server_of(session.config) is None and self._outcomes:
            cache.set(_CACHED, {**cache.get(_CACHED, {}), **self._outcomes})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write what a run on a server has shown."""
        server = server_of(self._config)
        if server is None or not (self._outcomes or self._reasons):
            return
        write = terminalreporter.write_line
        count = len(self._outcomes) + len(self._reasons)
        terminalreporter.section(f"leveret: on a real RabbitMQ {server.version}")
        write(f"{len(self._outcomes)} of {count} tests ran there")
        if self._reasons:
            write("only leveret could run:")
        for node_id, reason in self._reasons.items():
            write(f"  {node_id}: {reason}")
        cache = getattr(self._config, "cache", None)
        before = {} if cache is None else cache.get(_CACHED, {})
        different = [
            f"  {node_id}: {before[node_id]} on leveret, {outcome} on the server"
            for node_id, outcome in self._outcomes.items()
            if before.get(node_id, outcome) != outcome
        ]
        if different:
            write("different from the last run on leveret:")
        for line in different:
            write(line)


def _reason(report: pytest.TestReport) -> str | None:
    """Return why the server could not run a test; None if it could."""
    if not report.skipped or not isinstance(report.longrepr, tuple):
        return None
    text = str(report.longrepr[2]).removeprefix("Skipped: ")
    return text.removeprefix(NEEDS) if text.startswith(NEEDS) else None
