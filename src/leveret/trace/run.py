"""The run a trace belongs to: what its header says, and the files of this process that are being written.

A process has one file in a directory, for all its brokers and all its tests: a file for each test would make reading
many runs several times dearer. Under pytest-xdist every worker is such a process, and all of them have the same run.
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

from leveret.time.sources import SystemClock
from leveret.trace.trace_file import TraceFile

# Of a process without workers beside it.
MAIN: Final = "main"

# Where services that build and test say what they work on; the first that is there counts.
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
_CLIENTS: Final = ("pika", "aio_pika", "aiormq", "kombu", "amqp", "celery", "dramatiq", "pamqp")
_GIT_TIMEOUT_S: Final = 5

# By directory.
_files: dict[str, TraceFile] = {}
# The run of those that are open.
_run = ""


def file_in(directory: str, facts: Mapping[str, object]) -> TraceFile:
    """The file this process writes in a directory; `facts` of the first broker stand in the header of a new one.

    OSError when the directory cannot be made or written to.
    """
    place = os.path.abspath(directory)
    file = _files.get(place)
    if file is not None and file.is_ours:
        return file
    if file is not None:
        # Of an earlier session, or of the parent of this process.
        _files.pop(place, None)
    made = _new_file(place, facts)
    file = _files.setdefault(place, made)
    if file is not made:
        # Another thread was quicker.
        made.discard()
    return file


def close_files() -> list[str]:
    """End the run: finish and compress the files of this process; their paths."""
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
    told = {
        "run": run,
        "epoch_ns": now * 1000,
        "commit": commit,
        "branch": branch,
        "python": ".".join(map(str, sys.version_info[:3])),
        "client": _clients(),
        "started": started.isoformat(),
    }
    return TraceFile.create(place, worker, {**told, **facts})


def _run_and_worker(started: datetime) -> tuple[str, str]:
    """Under pytest-xdist the run of all workers, else one of this process's own."""
    global _run
    run, worker = os.environ.get("PYTEST_XDIST_TESTRUNUID"), os.environ.get("PYTEST_XDIST_WORKER")
    if run and worker:
        return run, worker
    if not any(file.is_ours for file in _files.values()):
        _run = f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    return _run, MAIN


def _commit_and_branch() -> tuple[str | None, str | None]:
    commit = next((os.environ[name] for name in _COMMITS if os.environ.get(name)), None)
    branch = next((os.environ[name] for name in _BRANCHES if os.environ.get(name)), None)
    if commit is None or branch is None:
        found = _asked_of_git()
        commit, branch = commit or found[0], branch or found[1]
    return commit, branch


def _asked_of_git() -> tuple[str | None, str | None]:
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        said = subprocess.run(
            ["git", "rev-parse", "HEAD", "--abbrev-ref", "HEAD"],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        commit, branch = said.stdout.split()
        return commit, None if branch == "HEAD" else branch
    return None, None


def _clients() -> str | None:
    """The client libraries that this process has imported, with their versions."""
    found = [(name, sys.modules.get(name)) for name in _CLIENTS]
    told = [f"{name} {getattr(module, '__version__', '')}".strip() for name, module in found if module is not None]
    return ", ".join(told) or None


atexit.register(close_files)
