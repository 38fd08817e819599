"""Runs the suites of the services, each in a copy of its folder and in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

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
    """Run the suite of a service."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    plugins = [word for name in _PLUGINS for word in ("-p", name)]
    # What a client of a framework leaves open is not what these runs are about.
    quiet = ("-q", "-p", "no:cacheprovider", "--leveret-pages=off", "-W", "ignore")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *quiet, *arguments],
        cwd=service,
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def tests_of(service: Path) -> list[str]:
    """Return the ids of the tests of a service."""
    lines = run(service, "--collect-only", "--leveret-contract=off").stdout.splitlines()
    return [line for line in lines if "::" in line]
