"""The upgrade report: the section that pytest shows at the end of a rehearsal.

It receives the reports of every test, also from workers of xdist. It does not change pytest's exit code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from leveret.story.facts import CountedFact, Facts
from leveret.wording import count_text
from pytest_leveret.brokers.recording import ending_of
from pytest_leveret.guard import register
from pytest_leveret.rehearsals.changes import VersionChange, VersionRun, changes, late_passes, steps
from pytest_leveret.rehearsals.fingerprint import Refusal
from pytest_leveret.rehearsals.rehearsal import ATTRIBUTE

_LISTED: Final = 10
_NOTHING: Final = "nothing was compared: no test passed on one version, and passed or failed on a newer one"


def plan(config: pytest.Config, versions: Sequence[str]) -> None:
    """Compare the tests of a rehearsal at its end, in the process that receives all reports."""
    if not hasattr(config, "workerinput"):
        register(config, UpgradeReport(versions), "leveret-upgrade-report", "write the upgrade report")


class UpgradeReport:
    """A pytest plugin that compares the runs of each test and reports what would change."""

    def __init__(self, versions: Sequence[str]) -> None:
        self._versions = versions
        self._runs: dict[str, dict[str, VersionRun]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the report of one phase of a test."""
        attached = vars(report).get(ATTRIBUTE)
        if attached is None:
            return
        by_version = self._runs.setdefault(attached["test"], {})
        if report.when == "setup":
            # If a test runs again, only its last run counts.
            by_version[attached["version"]] = VersionRun()
        _take(by_version.setdefault(attached["version"], VersionRun()), report, attached)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the section."""
        if not self._runs:
            return
        terminalreporter.write_sep("=", "leveret: upgrade report")
        for line in report_lines(self._runs, self._versions):
            terminalreporter.write_line(line)


def _take(run: VersionRun, report: pytest.TestReport, attached: Mapping[str, Any]) -> None:
    _, outcome = ending_of([report])
    if outcome in ("failed", "error"):
        run.outcome = "failed"
        run.place, run.message = _crash(report)
    elif outcome == "passed" and report.when == "call":
        run.outcome = "passed"
    if "facts" in attached:
        run.facts = Facts(
            {CountedFact(what, where, value=value): count for what, where, value, count in attached["facts"]}
        )
        run.refusals = [Refusal(**refusal) for refusal in attached["refusals"]]
        run.is_recorded, run.is_complete = attached["is_recorded"], attached["is_complete"]
        run.published_count = attached["published_count"]


def _crash(report: pytest.TestReport) -> tuple[str, str]:
    """Return the place and the message of a test's failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return report.nodeid, report.longreprtext.strip().rpartition("\n")[2]
    return f"{crash.path.removeprefix(os.path.join(os.getcwd(), ''))}:{crash.lineno}", crash.message


def report_lines(runs: Mapping[str, Mapping[str, VersionRun]], versions: Sequence[str]) -> list[str]:
    """Return the lines of the section for these runs, by test and version."""
    head = [f"{count_text(len(runs), 'test')} with a broker, on RabbitMQ {', '.join(versions)}"]
    head += _unrecorded(runs, versions)
    lines: list[str] = []
    for (older, newer), found in changes(runs, versions).items():
        lines += ["", f"from {older} to {newer}:"]
        for change in sorted(found, key=lambda one: not one.failing):
            lines += [f"  {line}" for line in _change_lines(change)]
    for passing, tests in late_passes(runs, versions).items():
        lines += ["", f"passes only on {', '.join(passing)}:", *_names("", tests)]
    if not lines:
        was_compared = any(any(steps(by_version, versions)) for by_version in runs.values())
        lines = ["no test would notice an upgrade" if was_compared else _NOTHING]
    failing = sum(all(run.outcome == "failed" for run in by_version.values()) for by_version in runs.values())
    if failing:
        fails, shows = ("fails", "shows") if failing == 1 else ("fail", "show")
        lines += ["", f"{count_text(failing, 'test')} {fails} on every version and {shows} nothing about an upgrade"]
    return head + lines


def _unrecorded(runs: Mapping[str, Mapping[str, VersionRun]], versions: Sequence[str]) -> list[str]:
    """Return lines about what could not be compared, by version."""
    lines = []
    for version in versions:
        decided = [run for by_version in runs.values() if (run := by_version.get(version)) and run.outcome != "skipped"]
        count = sum(not run.is_recorded for run in decided)
        left_out = len(runs) - len(decided)
        if not decided:
            lines.append(f"{version} did not run: no test passed or failed there")
            continue
        if left_out:
            lines.append(f"{count_text(left_out, 'test')} neither passed nor failed on {version}")
        if count == len(decided):
            lines.append(f"no trace was recorded on {version}: only failures are compared with it")
        elif count:
            lines.append(
                f"no trace was recorded of {count_text(count, 'test')} on {version}: only failures are compared"
            )
    return lines


def _change_lines(change: VersionChange) -> list[str]:
    head, *more = change.lines
    lines = [head if change.failing else f"passes on both, but: {head}", *more]
    lines += _names("fails: ", list(change.failing))
    return lines + _names("passes: " if change.failing else "", list(change.passing))


def _names(word: str, tests: list[str]) -> list[str]:
    lines = [f"  {word}{test}" for test in tests[:_LISTED]]
    return [*lines, f"  ... and {len(tests) - _LISTED} more"] if len(tests) > _LISTED else lines
