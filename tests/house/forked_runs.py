"""Runs of pytest in forks that have imported what they need, which takes most of the time of a short run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

# What most suites import if they use the leveret of this repository. pytest itself imports the plugin.
_IMPORTED: Final = (
    *("aio_pika", "leveret.broker", "leveret.engine.engine", "leveret.trace.run"),
    *("pytest_leveret.brokers", "pytest_leveret.fixtures", "pytest_leveret.reports.pages", "pytest_leveret.contract"),
)
# For the tests of a copy of the repository.
_PYTEST = (
    *("-q", "--tb=short", "-p", "no:cacheprovider", "--continue-on-collection-errors"),
    *("-o", "addopts=--import-mode=importlib", "-W", "ignore::pytest.PytestConfigWarning"),
)


class Runner:
    """Runs the tests of copies of the repository, or other suites, by way of `fork_server`."""

    def __init__(self, *preloaded: str) -> None:
        """Start the server.

        With names of modules, the suites are no copies: the server imports these, and what stands in PRELOADED.
        """
        self._preloaded: Final = preloaded
        self._server = self._started()

    def run(self, folder: Path, arguments: Iterable[str]) -> tuple[int, str]:
        """Return the exit status of pytest in a copy, and what it printed."""
        return self.run_pytest(folder, [*_PYTEST, *arguments], folder.with_name("output.txt"))

    def run_pytest(self, folder: Path, arguments: list[str], output: Path) -> tuple[int, str]:
        """Run pytest in a folder with no other arguments, and return what `run` returns; `output` is a file for it."""
        try:
            status = self._ask([str(folder), arguments, str(output)])
        except BaseException:
            # The test has timed out: the answer to the next request must not be the one that is missing now.
            self.close()
            self._server = self._started()
            raise
        return status, output.read_text(encoding="utf-8")

    def close(self) -> None:
        """End the server, and the run that it may be waiting for."""
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.communicate()

    def _ask(self, request: list[object]) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fork_server.py")), *self._preloaded],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@cache
def shared_runner() -> Runner:
    """Return what runs suites that use the leveret of this repository; it ends with this process."""
    return Runner(*_IMPORTED)


def environment() -> dict[str, str]:
    """Return an environment in which pytest loads our plugin and no other: each takes time, and the tests need none."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("LEVERET_", "PYTEST_", "PYTHON"))}
    return {**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_leveret.plugin"}
