"""The recording of a run: when a test begins and ends in a trace file, and when the file is complete.

A test is recorded when its first broker starts, once for each attempt. A test without a broker is not recorded. The
outcome is written after the teardown, in which strict checks can still fail the test. This module imports leveret only
after a broker has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.guard import Guarded
from pytest_leveret.options import general_settings

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.story.failure import Failure
    from leveret.trace.trace_file import TraceFile


@dataclass(slots=True)
class Attempt:
    """One attempt of a test: its brokers, the trace files that record it, and its reports.

    It exists from the set-up to the end of the teardown, so that a test that has ended keeps no broker.
    """

    # The brokers that serve it, and those of them that were started for it alone.
    brokers: list[Broker] = field(default_factory=list)
    started: list[Broker] = field(default_factory=list)
    # How much each shared broker had recorded when the test began, by the broker's id.
    recorded: dict[int, int] = field(default_factory=dict)
    # Whether its call has passed.
    has_passed: bool = False
    files: list[TraceFile] = field(default_factory=list)
    reports: list[pytest.TestReport] = field(default_factory=list)
    # The text of the first error.
    error: str | None = None
    # What the assertion that failed is about.
    failure: Failure | None = None
    # The path of its page, if one was written.
    page: str | None = None


# The most characters of an error that are recorded.
_ERROR_MAX: Final = 20_000
_ATTEMPT: Final = pytest.StashKey[Attempt]()
# The variable in which the workers of xdist find the name of their run, with its date.
_DATED_RUN: Final = "LEVERET_RUN"
# Every file that the run has written to.
_FILES: Final = pytest.StashKey["list[TraceFile]"]()


def error_text(call: pytest.CallInfo[None]) -> str | None:
    """Return the text of what a phase of a test failed with, or None."""
    return None if call.excinfo is None else call.excinfo.exconly()[:_ERROR_MAX]


def failure_of(call: pytest.CallInfo[None]) -> Failure | None:
    """Return the failure of the assertion that a phase of a test failed with, or None."""
    # Without this module, no assertion of leveret has failed.
    known = sys.modules.get("leveret.story.failure")
    return None if known is None or call.excinfo is None else known.failure_of(call.excinfo.value)


def begin_attempt(item: pytest.Item) -> None:
    """Note that a test begins, or runs again."""
    item.stash[_ATTEMPT] = Attempt()


def attempt_of(item: pytest.Item) -> Attempt:
    """Return the attempt of a test that is running or ending."""
    return item.stash.setdefault(_ATTEMPT, Attempt())


def forget(item: pytest.Item) -> None:
    """Forget the attempt of a test that has ended, because its item exists until the run ends."""
    item.stash.setdefault(_ATTEMPT, Attempt())
    del item.stash[_ATTEMPT]


def begin(item: pytest.Item, broker: Broker) -> None:
    """Note that a broker serves a test, and record the test in the broker's trace file unless it has it already."""
    attempt = attempt_of(item)
    attempt.brokers.append(broker)
    file = harness_of(broker).trace_file
    if file is None or file in attempt.files:
        return
    attempt.files.append(file)
    file.begin_test(item.nodeid)
    files = item.config.stash.setdefault(_FILES, [])
    if file not in files:
        files.append(file)


class Recording:
    """The part of the plugin that records a run."""

    def __init__(self) -> None:
        """Record the run that begins now."""
        self._began: Final = datetime.now(UTC)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: list[Any]) -> None:
        """Name the run for the workers of xdist, as a run without workers is named. A name that the user gave stays.

        The name is in the environment of a worker from its start, because the broker of `leveret_url_env` opens its
        trace file before a worker knows what else the controller passes to it.
        """
        if config.getoption("testrunuid", None) is not None:
            return
        session: Any = config.pluginmanager.get_plugin("dsession")
        run = f"{self._began:%Y%m%dT%H%M%S}-{session.nodemanager.testrunuid[:8]}"
        for spec in specs:
            spec.env[_DATED_RUN] = run

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Record how a test ended, once its teardown has run."""
        result = yield
        attempt = item.stash.get(_ATTEMPT, None)
        if attempt is not None:
            with Guarded("record how it ended", item, result):
                attempt.reports.append(result)
                if result.failed and attempt.error is None:
                    attempt.error, attempt.failure = error_text(call), failure_of(call)
                if result.when == "teardown":
                    try:
                        _end(item, attempt)
                    except Warning as warning:
                        # The user's filter turns warnings into errors.
                        result.outcome, result.longrepr = "failed", str(warning)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Close the files, because no more tests will run."""
        for file in session.config.stash.get(_FILES, []):
            file.close()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the files, or with workers of xdist the directory that has their files."""
        config = terminalreporter.config
        files = config.stash.get(_FILES, [])
        paths = [file.path + (f", cut: {file.failure.strerror}" if file.failure else "") for file in files]
        setting = general_settings(config).get("trace_dir")
        if not paths and setting is not None and config.pluginmanager.has_plugin("dsession"):
            paths = [setting.value]
        for path in paths:
            terminalreporter.write_line(f"leveret: this run's trace is in {path}")


def _end(item: pytest.Item, attempt: Attempt) -> None:
    # A later teardown, which the next test did not need, ends no test.
    files, attempt.files = attempt.files, []
    if not files:
        return
    for broker in attempt.brokers:
        # Reading this property makes the broker write its pending events, which come before the end of the test.
        _ = harness_of(broker).trace_file
    phase, outcome = ending_of(attempt.reports)
    duration = round(sum(report.duration for report in attempt.reports), 6)
    ending: dict[str, object] = {"outcome": outcome, "duration": duration, "phase": phase}
    if attempt.failure is not None:
        ending["failure"] = attempt.failure.subject
    if attempt.error is not None:
        from leveret.trace.redaction import Redaction

        ending["error"] = Redaction().text(attempt.error)
    page = attempt.page
    for file in files:
        file.end_test(item.nodeid, ending if page is None else {**ending, **_about_page(page, file.path)})


def _about_page(page: str, trace: str) -> dict[str, str]:
    """Return the path of a page from the folder of a trace file, and the hash of the page's content.

    A later run may write another page, with another hash, to the same path.
    """
    from leveret.trace.rows import body_hash

    # On Windows, there is no way from one drive to another.
    with suppress(OSError, ValueError):
        way = os.path.relpath(page, os.path.dirname(trace)).replace(os.sep, "/")
        return {"page": way, "page_hash": body_hash(Path(page).read_bytes())}
    return {}


def ending_of(reports: Iterable[pytest.TestReport]) -> tuple[str, str]:
    """Return the phase that decided the outcome, and passed, failed, error, skipped, xfailed or xpassed."""
    outcome = "passed"
    for report in reports:
        if report.failed:
            return report.when or "", "failed" if report.when == "call" else "error"
        if report.skipped:
            return report.when or "", "xfailed" if hasattr(report, "wasxfail") else "skipped"
        if report.when == "call" and hasattr(report, "wasxfail"):
            # Its teardown can still fail.
            outcome = "xpassed"
    return "call", outcome
