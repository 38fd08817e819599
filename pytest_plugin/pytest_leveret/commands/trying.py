"""`leveret init --try`: the project's tests, run once with the lines that are proposed, and what became of them.

In the run itself this module is a plugin of pytest, which writes the outcomes to a file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

_FILE: Final = "LEVERET_INIT_OUTCOMES"
_REACHED: Final = "reached leveret"
_WAY_OUT: Final = "way out"
_DENIED: Final = "denied feature"
_WHY_MAX: Final = 200
_LIMIT_S: Final = 1800
_LISTED: Final = 20
# What pytest reported, by test, and of each module that cannot be imported the outcome.
_reports: Final[dict[str, list[pytest.TestReport]]] = {}
_not_imported: Final[dict[str, dict[str, Any]]] = {}


def run(root: Path, options: Sequence[str]) -> tuple[int, list[str], set[str]]:
    """Run the tests of a project with more options of pytest.

    Return the exit code, lines about the outcomes, and the deprecated features that failed tests were denied.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, "outcomes.json")
        command = [sys.executable, "-m", "pytest", "-p", __name__, "-q", *options]
        try:
            done = subprocess.run(
                command,
                cwd=root,
                env={**os.environ, _FILE: str(file)},
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return 1, [f"the tests took more than {_LIMIT_S // 60} minutes, and were stopped"], set()
        if not file.exists():
            said = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
            return done.returncode, ["pytest ran no test:", *(f"  {line}" for line in said[-_LISTED:])], set()
        outcomes = json.loads(file.read_text(encoding="utf-8"))
        denied = {feature for it in outcomes.values() for feature in it["denied"]}
        return done.returncode, list(_described(outcomes)), denied


def _described(outcomes: dict[str, dict[str, Any]]) -> Iterator[str]:
    counts = Counter(it["outcome"] for it in outcomes.values())
    reached = sum(it["reached"] for it in outcomes.values())
    counted = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    yield f"{counted}; {reached} reached leveret"
    red = {test: it for test, it in outcomes.items() if it["outcome"] in ("failed", "error")}
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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what a phase of a test reported."""
    _reports.setdefault(report.nodeid, []).append(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a module that cannot be imported."""
    if report.failed:
        text = report.longreprtext.strip()
        # The error is where the last lines of an E begin; a file in a SyntaxError stands before it, further right.
        raised = re.findall(r"^E {3}(\S.*)(?:\nE.*)*", text, re.MULTILINE)
        why = (raised[-1] if raised else text.split("\n")[0])[:_WHY_MAX]
        _not_imported[report.nodeid] = {"outcome": "error", "reached": False, "why": why, "denied": []}


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the outcomes, but not in a worker of pytest-xdist."""
    if hasattr(session.config, "workerinput") or _FILE not in os.environ:
        return
    outcomes = _not_imported | {test: _outcome(reports) for test, reports in _reports.items()}
    if outcomes:
        Path(os.environ[_FILE]).write_text(json.dumps(outcomes), encoding="utf-8", newline="")
