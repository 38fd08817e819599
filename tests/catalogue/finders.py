"""The finders: each runs a test file in a folder and a process of its own, and says whether it has found something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.house.repository import ROOT
from tests.plugin.conftest import CLIENT

# Only what the entries need, so that each process starts quickly.
_PLUGINS = ("pytest_leveret.plugin", "pytest_timeout", "pytest_asyncio.plugin")
_EXPLORED = "import pytest\n\npytestmark = pytest.mark.leveret_explore(limit=40, seconds=25)\n"
_NEEDS = """
import sys
import pytest
from leveret.trace.shapes.leaves import path_text
from pytest_leveret.needs.survey import Survey

survey = Survey(25)
pytest.main([*sys.argv[1:], "-q", "-s", "--disable-warnings"], plugins=[survey])
for message in survey.findings.sorted():
    for path, need in message.fields.items():
        print("found:", message.kind.queue, path_text(path), need.verdict)
"""
_WITNESS = """
def pytest_sessionfinish(session):
    doctor = session.config.pluginmanager.get_plugin("leveret-flaky-doctor")
    finding = doctor and doctor.diagnosis and doctor.diagnosis.finding
    print("found:", finding is not None and finding.kind)
"""
_TIMEOUT_S = 900


class Tried:
    """A test file, on which the finders are tried. `twin` shows what is right, to those that compare."""

    def __init__(self, source: str, twin: str | None) -> None:
        self._source = source
        self._twin = twin

    @cached_property
    def _plain(self) -> str:
        return self._run(self._source)

    @property
    def fails(self) -> bool:
        """Whether the test fails as it is, without any finder."""
        return " passed" not in self._plain.splitlines()[-1] or " failed" in self._plain.splitlines()[-1]

    def found(self, finder: str) -> bool | None:
        """Return whether a finder finds something; None if it cannot be tried."""
        return FINDERS[finder](self)

    def explore(self) -> bool | None:
        """Explore faults, of a test that passes without one."""
        return None if self.fails else " failed" in self._explored.splitlines()[-1]

    @cached_property
    def _explored(self) -> str:
        return self._run(f"{self._source}\n{_EXPLORED}")

    def flaky(self) -> bool | None:
        """Ask the flake doctor, and return whether it names an order of two steps."""
        text = self._run(self._source, "--leveret-flaky=24", "-s", "-p", "witness", **{"witness.py": _WITNESS})
        return bool(re.search(r"^found: (?!False|none)", text, re.MULTILINE))

    def checks(self) -> bool | None:
        """Run with the strict checks that are on as errors."""
        return "CheckFailedError" in self._run(self._source, "--leveret-checks=error")

    def diagnosis(self) -> bool | None:
        """Read the report of the test if it fails, or else of the run with a fault that fails it."""
        if not self.fails and not self.explore():
            return None
        return "leveret: what went wrong" in (self._plain if self.fails else self._explored)

    def contract(self) -> bool | None:
        """Check against the lock that the twin has written."""
        if self._twin is None:
            return None
        with TemporaryDirectory() as folder:
            ini = {"pytest.ini": "[pytest]\nleveret_contract = messages.lock\n"}
            self._run(self._twin, "--leveret-contract=write", folder=folder, **ini)
            if not Path(folder, "messages.lock").exists():
                return None
            return "can break a consumer" in self._run(self._source, "--leveret-contract=check", folder=folder, **ini)

    def needs(self) -> bool | None:
        """Measure what consumers need, and return whether it is more than the twin's consumers need."""
        if self._twin is None or self.fails:
            return None
        needed, rightly = map(self._needed, (self._source, self._twin))
        return bool(needed - rightly)

    def _needed(self, source: str) -> set[tuple[str, ...]]:
        text = self._run(source, program=("-c", _NEEDS, "test_it.py"))
        return set(re.findall(r"^found: (\S+) (\S+) (required|typed)", text, re.MULTILINE))

    def _run(self, source: str, *options: str, folder: str = "", program: tuple[str, ...] = (), **files: str) -> str:
        """Return what a run of a test file prints."""
        if not folder:
            with TemporaryDirectory() as own:
                return self._run(source, *options, folder=own, program=program, **files)
        for name, text in {"test_it.py": source, "client.py": CLIENT, **files}.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        plugins = [word for name in _PLUGINS for word in ("-p", name)]
        paths = os.pathsep.join(filter(None, [folder, str(ROOT), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, *(program or ("-m", "pytest", "test_it.py")), *plugins, "-q", "--timeout=300", *options],
            cwd=folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        return f"{done.stderr}\n{done.stdout}".rstrip()


# Those that accuse a test file by itself.
ALONE = ("explore", "flaky", "checks")
FINDERS: dict[str, Callable[[Tried], bool | None]] = {
    "explore": Tried.explore,
    "flaky": Tried.flaky,
    "checks": Tried.checks,
    "diagnosis": Tried.diagnosis,
    "contract": Tried.contract,
    "needs": Tried.needs,
}
