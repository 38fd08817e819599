"""`leveret init --try`: the project's tests, run once with the lines that are proposed, and what became of them.

In the run itself this module is a plugin of pytest, which writes each outcome to a file, a line each.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pytest

from leveret.workers.processes import program

_FILE: Final = "LEVERET_INIT_OUTCOMES"
_REACHED: Final = "reached leveret"
_WAY_OUT: Final = "way out"
_DENIED: Final = "denied feature"
_WHY_MAX: Final = 200
_LISTED: Final = 20
# The outcomes that are no good end. The last is that of a test that was running when its process ended.
_RED: Final = ("failed", "error", "stopped")
# What pytest reported, by test.
_reports: Final[dict[str, list[pytest.TestReport]]] = {}


class Tried(NamedTuple):
    """What became of the tests: pytest's exit code, the outcome of each, and lines that say so."""

    code: int
    outcomes: dict[str, dict[str, Any]]
    said: list[str]

    @property
    def denied(self) -> set[str]:
        """The deprecated features that failed tests were denied."""
        return {feature for it in self.outcomes.values() for feature in it["denied"]}

    @property
    def unreached(self) -> list[str]:
        """The failed tests of which no client reached leveret."""
        return [test for test, it in self.outcomes.items() if it["outcome"] in _RED[:2] and not it["reached"]]

    @property
    def red_count(self) -> int:
        """The number of tests that did not come to a good end."""
        return sum(it["outcome"] in _RED for it in self.outcomes.values())


def run(root: Path, options: Sequence[str], limit_s: float) -> Tried:
    """Run the tests of a project with more options of pytest, and stop them after so many seconds."""
    printed: list[str] = []
    with TemporaryDirectory() as folder:
        file = Path(folder, "outcomes.json")
        command = [sys.executable, "-m", "pytest", "-p", __name__, "-q", *options]
        process = program(command, {**os.environ, _FILE: str(file)}, str(root), printed.append)
        ended = f"stopped after {limit_s:g} s" if not process.wait(limit_s) else ""
        process.kill()
        process.close()
        # A process that is killed may leave half a line.
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    outcomes: dict[str, dict[str, Any]] = {}
    for line in lines:
        outcomes |= json.loads(line) if line.endswith("\n") else {}
    code = process.code()
    for it in outcomes.values():
        if it["outcome"] == _RED[-1]:
            it["why"] = ended or f"pytest ended with {code} while it ran"
    if not outcomes:
        said = [f"  {line}" for line in printed if line.strip()]
        return Tried(code or 1, {}, [f"pytest ran no test{ended and ', and was '}{ended}:", *said[-_LISTED:]])
    first, *rest = _described(outcomes)
    return Tried(1 if ended else code or 0, outcomes, [f"{first}{ended and '; '}{ended}", *rest])


def _described(outcomes: dict[str, dict[str, Any]]) -> Iterator[str]:
    counts = Counter(it["outcome"] for it in outcomes.values())
    reached = sum(it["reached"] for it in outcomes.values())
    counted = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    yield f"{counted}; {reached} reached leveret"
    red = {test: it for test, it in outcomes.items() if it["outcome"] in _RED}
    for test, it in list(red.items())[:_LISTED]:
        yield f"  {it['outcome']} {test}{'' if it['reached'] else ' (no client of it reached leveret)'}: {it['why']}"
    if len(red) > _LISTED:
        yield f"  ... and {len(red) - _LISTED} more"
    # A suite may skip what finds no server.
    skipped = Counter(it["why"] for it in outcomes.values() if it["outcome"] == "skipped" and not it["reached"])
    for why, count in skipped.most_common(_LISTED):
        yield f"  skipped {count}: {why}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a client of the test has reached a broker."""
    from pytest_leveret import brokers
    from pytest_leveret.brokers.harness import harness_of

    report = yield
    if "leveret.broker" in sys.modules:
        harnesses = [harness_of(broker) for broker in brokers.brokers_of(item)]
        report.user_properties += [(_REACHED, True)] if any(it.has_clients for it in harnesses) else []
        if report.failed:
            report.user_properties += [
                *((_WAY_OUT, line.strip()) for it in harnesses for line in it.ways_out(item.nodeid)),
                *((_DENIED, feature) for it in harnesses for feature in it.denied_features(item.nodeid)),
            ]
    return report


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note a test that begins, which may not come to its end."""
    _note(nodeid, {"outcome": _RED[-1], "reached": False, "why": "", "denied": []})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what became of a test, once it has ended; a plugin may run it again."""
    reports = _reports.setdefault(report.nodeid, [])
    reports.append(report)
    if report.when == "teardown":
        _note(report.nodeid, _outcome(reports))


def _note(test: str, outcome: dict[str, Any]) -> None:
    """Write an outcome, but not in a worker of pytest-xdist."""
    if _FILE in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ[_FILE], "a", encoding="utf-8", newline="") as file:
            file.write(f"{json.dumps({test: outcome})}\n")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a module that cannot be imported."""
    if report.failed:
        text = report.longreprtext.strip()
        # The error is where the last lines of an E begin; a file in a SyntaxError stands before it, further right.
        raised = re.findall(r"^E {3}(\S.*)(?:\nE.*)*", text, re.MULTILINE)
        why = (raised[-1] if raised else text.split("\n")[0])[:_WHY_MAX]
        _note(report.nodeid, {"outcome": "error", "reached": False, "why": why, "denied": []})


def _outcome(reports: Sequence[pytest.TestReport]) -> dict[str, Any]:
    """Return what became of a test, and why it failed if it did."""
    from pytest_leveret.brokers.recording import ending_of

    _, outcome = ending_of(reports)
    reached = any(name == _REACHED for report in reports for name, _ in report.user_properties)
    why = next((_why(report) for report in reports if report.failed or report.skipped), "")
    denied = [value for report in reports for name, value in report.user_properties if name == _DENIED]
    return {"outcome": outcome, "reached": reached, "why": why, "denied": denied}


def _why(report: pytest.TestReport) -> str:
    """Return the first line of an error with leveret's ways out, or the reason of a skip."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = report.longreprtext if crash is None else crash.message
    if isinstance(report.longrepr, tuple):
        message = report.longrepr[2].removeprefix("Skipped: ")
    # Some clients show the text of the server as Python would write it.
    why = re.split(r"\n|\\n", message.strip())[0][:_WHY_MAX]
    return " ".join([why, *(str(line) for name, line in report.user_properties if name == _WAY_OUT)])
