"""Runs pytest in copies of the repository, each time in a process forked from this one.

pytest and the clients are imported once, leveret in each fork: from the copy. A request is a line of JSON on standard
input, [folder, arguments, file for the output, patterns]; the answer is pytest's exit status.

If there are patterns, a run ends once its errors match each of them, for the tests that are left could only add to it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

# The lines of a report that say what was wrong and where.
ERROR_LINE = r"^(?:E\s|\S+:\d+: ).*$"
PRELOADED = ("pytest", "_pytest.pytester", "_pytest.doctest", "asyncio", "pika", "pamqp.commands", "tomllib", "ssl")


def serve() -> None:
    """Answer requests until standard input ends."""
    for name in PRELOADED:
        import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


class Stopper:
    """A plugin that ends a run once its errors match every pattern."""

    def __init__(self, patterns: list[str]) -> None:
        self._unmatched = patterns
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Remember what to end."""
        self._session = session

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Read the error of a file that cannot be collected."""
        self._read(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Read the error of a test."""
        self._read(report)

    def _read(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed and self._session is not None:
            errors = "\n".join(re.findall(ERROR_LINE, report.longreprtext, re.MULTILINE))
            self._unmatched = [pattern for pattern in self._unmatched if not re.search(pattern, errors)]
            self._session.shouldstop = not self._unmatched and "all is named"


def run(folder: str, arguments: list[str], output: str, patterns: list[str]) -> None:
    """Run pytest in a folder, and end this process."""
    import pytest

    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    os.chdir(folder)
    paths = [os.path.join(folder, part) for part in ("src", "pytest_plugin", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = paths
    status = int(pytest.main(arguments, [Stopper(patterns)] if patterns else []))
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    serve()
