"""The run that a trace belongs to: the facts of its header, and the open trace files of this process.

A process writes one file into a directory, for all its brokers and tests. One file per test would make reading many
runs several times slower. Under pytest-xdist every worker is such a process, and all workers share one run.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from leveret.clocks import SystemClock
from leveret.trace.trace_file import TraceFile

# The worker's name in a process without pytest-xdist.
MAIN: Final = "main"

# The variables in which CI services give the commit and the branch. The first that is set wins.
_COMMITS: Final = (
    "GITHUB_SHA",
    "CI_COMMIT_SHA",
    "BUILDKITE_COMMIT",
    "CIRCLE_SHA1",
    "GIT_COMMIT",
    "BUILD_SOURCEVERSION",
)
_BRANCHES: Final = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BUILDKITE_BRANCH", "CIRCLE_BRANCH", "GIT_BRANCH"),
    "BUILD_SOURCEBRANCHNAME",
)
# The variable in which leveret's pytest plugin gives the workers of pytest-xdist the name of their run, with its date.
_DATED_RUN: Final = "LEVERET_RUN"
_CLIENTS: Final = ("pika", "aio_pika", "aiormq", "kombu", "amqp", "celery", "dramatiq", "pamqp")
_GIT_TIMEOUT_S: Final = 5

# The open files, by directory.
_files: dict[str, TraceFile] = {}
# The run that the open files belong to.
_run = ""


def file_in(directory: str, facts: Mapping[str, object]) -> TraceFile:
    """Return the file that this process writes in a directory, and create it if needed.

    The header of a new file holds `facts`, which are those of the first broker. Raises OSError if the directory cannot
    be created or written to.
    """
    place = os.path.abspath(directory)
    file = _files.get(place)
    if file is not None and file.is_ours:
        return file
    if file is not None:
        # It belongs to an earlier session, or to the parent of this process.
        _files.pop(place, None)
    created = _new_file(place, facts)
    file = _files.setdefault(place, created)
    if file is not created:
        # Another thread was faster.
        created.discard()
    return file


def close_files() -> list[str]:
    """Finish and compress the files of this process, which ends the run, and return their paths."""
    paths = []
    for place, file in list(_files.items()):
        del _files[place]
        if file.is_ours:
            file.close()
            paths.append(file.path)
    return paths


def _new_file(place: str, facts: Mapping[str, object]) -> TraceFile:
    now = SystemClock().now()
    started = datetime.fromtimestamp(now / 1_000_000, UTC)
    run, worker = _run_and_worker(started)
    commit, branch = _commit_and_branch()
    found = {
        "run": run,
        "epoch_ns": now * 1000,
        "commit": commit,
        "branch": branch,
        "python": ".".join(map(str, sys.version_info[:3])),
        "client": _clients(),
        "started": started.isoformat(),
    }
    return TraceFile.create(place, worker, {**found, **facts})


def _run_and_worker(started: datetime) -> tuple[str, str]:
    """Return pytest-xdist's run and worker, or a run of this process if it is not a worker."""
    global _run
    run, worker = os.environ.get("PYTEST_XDIST_TESTRUNUID"), os.environ.get("PYTEST_XDIST_WORKER")
    if run and worker:
        dated = os.environ.get(_DATED_RUN, "")
        # Without this end, the name is from the run in which a test started pytest-xdist.
        return dated if dated.endswith(f"-{run[:8]}") else run, worker
    if not any(file.is_ours for file in _files.values()):
        _run = f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    return _run, MAIN


def _commit_and_branch() -> tuple[str | None, str | None]:
    commit = next((os.environ[name] for name in _COMMITS if os.environ.get(name)), None)
    branch = next((os.environ[name] for name in _BRANCHES if os.environ.get(name)), None)
    if commit is None or branch is None:
        found = _commit_and_branch_of_git()
        commit, branch = commit or found[0], branch or found[1]
    return commit, branch


def _commit_and_branch_of_git() -> tuple[str | None, str | None]:
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        output = subprocess.run(
            ["git", "rev-parse", "HEAD", "--abbrev-ref", "HEAD"],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
        commit, branch = output.split()
        return commit, None if branch == "HEAD" else branch
    return None, None


def _clients() -> str | None:
    """Name the client libraries that this process has imported, with their versions."""
    found = [(name, sys.modules.get(name)) for name in _CLIENTS]
    named = [f"{name} {getattr(module, '__version__', '')}".strip() for name, module in found if module is not None]
    return ", ".join(named) or None


atexit.register(close_files)
