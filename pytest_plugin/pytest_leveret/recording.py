"""Recording a run: what its trace file says of the tests, and when the file ends.

A test is written down when its first broker is there, once for each time it is tried; a test without a broker is not.
How it ended is known after its teardown, where strict checks may still fail it. Nothing of leveret is imported here
before a broker was.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from pytest_leveret.options import general_settings

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.trace.trace_file import TraceFile


@dataclass(slots=True)
class Attempt:
    """A test that runs, its brokers, and the files that say so."""

    brokers: list[Broker] = field(default_factory=list)
    files: list[TraceFile] = field(default_factory=list)
    reports: list[pytest.TestReport] = field(default_factory=list)


_ATTEMPT: Final = pytest.StashKey[Attempt]()
_RUNNING: Final = pytest.StashKey[pytest.Item]()
# Of the run: every file that was written to.
_FILES: Final = pytest.StashKey["list[TraceFile]"]()


def begin_attempt(item: pytest.Item) -> None:
    """A test begins, or is tried once more."""
    item.stash[_ATTEMPT] = Attempt()
    item.session.stash[_RUNNING] = item


def running(session: pytest.Session) -> pytest.Item | None:
    """The test that runs, or ends."""
    return session.stash.get(_RUNNING, None)


def begin_with_session(session: pytest.Session, broker: Broker) -> None:
    """The session's broker was started, for the test that runs."""
    item = running(session)
    if item is not None:
        begin(item, broker)


def begin(item: pytest.Item, broker: Broker) -> None:
    """A broker serves a test: write that the test runs, where the broker writes a trace and nobody has said so."""
    from leveret.engine.harness import Harness

    attempt = item.stash.setdefault(_ATTEMPT, Attempt())
    attempt.brokers.append(broker)
    file = Harness(broker).trace_file
    if file is None or file in attempt.files:
        return
    attempt.files.append(file)
    file.begin_test(item.nodeid)
    files = item.config.stash.setdefault(_FILES, [])
    if file not in files:
        files.append(file)


class Recording:
    """This is the part of the plugin that pytest calls."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write how a test ended, once that is known."""
        result = yield
        attempt = item.stash.get(_ATTEMPT, None)
        if attempt is not None:
            attempt.reports.append(result)
            if result.when == "teardown":
                _end(item, attempt)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """No test will run: the files are complete."""
        for file in session.config.stash.get(_FILES, []):
            file.close()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where the files are; those of the workers lie beside each other."""
        config = terminalreporter.config
        paths = [file.path for file in config.stash.get(_FILES, [])]
        setting = general_settings(config).get("trace_dir")
        if not paths and setting is not None and config.pluginmanager.has_plugin("dsession"):
            paths = [setting.value]
        for path in paths:
            terminalreporter.write_line(f"leveret: this run's trace is in {path}")


def _end(item: pytest.Item, attempt: Attempt) -> None:
    if not attempt.files:
        return
    from leveret.engine.harness import Harness

    for broker in attempt.brokers:
        # What it has not written yet comes before the end.
        _ = Harness(broker).trace_file
    phase, outcome = _ending(attempt.reports)
    duration = round(sum(report.duration for report in attempt.reports), 6)
    for file in attempt.files:
        file.end_test(item.nodeid, {"outcome": outcome, "duration": duration, "phase": phase})


def _ending(reports: list[pytest.TestReport]) -> tuple[str, str]:
    """The phase that decided how a test ended, and how: passed, failed, error, skipped, xfailed or xpassed."""
    for report in reports:
        if report.failed:
            return report.when, "failed" if report.when == "call" else "error"
        if report.skipped:
            return report.when, "xfailed" if hasattr(report, "wasxfail") else "skipped"
        if report.when == "call" and hasattr(report, "wasxfail"):
            return report.when, "xpassed"
    return "call", "passed"
