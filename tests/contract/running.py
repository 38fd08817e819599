"""Runs the suites of the services, each in a copy of its folder and in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.house.forked_runs import shared_runner

SERVICES = Path(__file__).parent / "services"
NAMES = tuple(sorted(path.parent.name for path in SERVICES.glob("*/suite.py")))
LOCK = "messages.lock"
_PLUGINS = ("pytest_leveret.plugin", "pytest_asyncio.plugin", "xdist.plugin")
# The environment of the run that asks may hold settings that are not the service's.
_FOREIGN = ("PYTEST_", "LEVERET_", "COV_")


def copy_of(name: str, folder: Path) -> Path:
    """Return a copy of a service in a folder."""
    return Path(shutil.copytree(SERVICES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")))


def run(service: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the suite of a service in a new process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *_options(_PLUGINS), *arguments],
        cwd=service,
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def run_forked(service: Path, *arguments: str) -> tuple[int, str]:
    """Run the suite of a service in a fork that need not import leveret; return pytest's exit status and its output."""
    if not hasattr(os, "fork"):
        result = run(service, *arguments)
        return result.returncode, result.stdout
    options = _options(_PLUGINS[:2])
    return shared_runner().run_pytest(service, [*options, *arguments], service.with_name("output.txt"))


def _options(plugins: Iterable[str]) -> list[str]:
    named = [word for name in plugins for word in ("-p", name)]
    # What a client of a framework leaves open is not what these runs are about.
    return [*named, "-q", "-p", "no:cacheprovider", "--leveret-pages=off", "-W", "ignore"]


def tests_of(service: Path) -> list[str]:
    """Return the ids of the tests of a service."""
    lines = run(service, "--collect-only", "--leveret-contract=off").stdout.splitlines()
    return [line for line in lines if "::" in line]
