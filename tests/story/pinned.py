"""A plugin for pytest that pins the flow of each test, and the campaign that runs the examples with it.

`python -m tests.story.pinned --runs 1000` runs each test of the examples so often, in other orders each time, and says
which flow was not the same. The pin is what the first run left.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from leveret import Broker, WaitTimeoutError

_FOLDER = "LEVERET_PINNED_FLOWS"
_REPOSITORY = Path(__file__).parent.parent.parent
_EXAMPLES = _REPOSITORY / "examples"


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Compare the flow of each of the test's brokers with its pin, once the test has passed."""
    result = yield
    for name, broker in sorted(pyfuncitem.funcargs.items()):
        if isinstance(broker, Broker) and broker.events.is_on:
            # A test may leave a client that does nothing any more.
            with suppress(WaitTimeoutError):
                broker.wait_idle(timeout=5)
            pin = Path(os.environ[_FOLDER], re.sub(r"\W+", "_", f"{pyfuncitem.nodeid} {name}"))
            flow = broker.flow()
            if pin.exists():
                assert flow == pin.read_text(), f"{name}.flow()"
            else:
                pin.write_text(flow)
    return result


def main() -> int:
    """Run the campaign, and return 1 if a flow was not the same in each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    files = options.files or sorted({*_EXAMPLES.glob("*/test_*.py"), *_EXAMPLES.glob("frameworks/*/test_*.py")})
    differed = 0
    for file in files:
        for test in _tests_of(file.resolve()):
            differed += not _is_steady(file.resolve(), test, options.runs)
    return 1 if differed else 0


def _folder_of(file: Path) -> Path:
    return file.parent if "frameworks" in file.parts else _REPOSITORY


def _tests_of(file: Path) -> list[str]:
    listed = _pytest(file, str(file), "--collect-only", "-q", flows=Path())
    return [line for line in listed.stdout.splitlines() if "::" in line]


def _is_steady(file: Path, test: str, runs: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        once = _pytest(file, test, "-q", flows=Path(folder))
        flows = list(Path(folder).iterdir())
        if once.returncode != 0 or not any(flow.read_text() for flow in flows):
            print(f"{test}: nothing to pin", flush=True)
            return True
        again = _pytest(file, test, f"--leveret-flaky={runs}", flows=Path(folder))
    # The report begins with the name of the test.
    report = again.stdout[again.stdout.rfind(f"\n{test}") :].strip()
    print(report.splitlines()[0] if again.returncode == 0 else report, flush=True)
    return again.returncode == 0


def _pytest(file: Path, *arguments: str, flows: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.story.pinned", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(_REPOSITORY), _FOLDER: str(flows)}
    folder = _folder_of(file)
    return subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main())
