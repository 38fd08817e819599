"""The projects in examples/frameworks: what their pyproject.toml asks for, and a run of their tests.

Each folder is a project of its own, as a user would have it: its application, its tests and its pytest settings. So its
tests run in the folder, in a process of their own.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoints, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/frameworks"
# pytest, its plugins and time-machine are tools of the tests, and no part of what an application is built with.
TOOLS = ("leveret", "pytest", "anyio", "time-machine")
# The environment of the run that asks may hold settings that are not the project's.
_FOREIGN = ("PYTEST_", "LEVERET_", "COV_")
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)\s*(?:\[(?P<extras>[^]]*)\])?[^;]*?(?:>=\s*(?P<bound>[\w.]+))?\s*(?:[,<;].*)?$"
)


class HungError(Exception):
    """The tests of a project, or a process that they started, did not end."""


@dataclass(frozen=True)
class Requirement:
    """A line of a project's dependencies, such as `pika>=1.0.0`; `oldest` is its lower bound."""

    text: str
    name: str
    extras: str
    oldest: str | None

    @property
    def pinned(self) -> str:
        """The requirement for exactly its lower bound, or as it is if it has none."""
        extras = f"[{self.extras}]" if self.extras else ""
        return f"{self.name}{extras}=={self.oldest}" if self.oldest else self.text

    @property
    def is_tool(self) -> bool:
        """Whether it is leveret, pytest or a plugin of pytest."""
        return self.name.startswith(TOOLS)


@dataclass(frozen=True)
class Project:
    """One folder of examples/frameworks."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder, which is that of the framework."""
        return self.folder.name

    @cached_property
    def document(self) -> dict[str, Any]:
        """Its pyproject.toml."""
        return tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings for pytest."""
        settings: dict[str, Any] = self.document["tool"]["pytest"]["ini_options"]
        return settings

    @cached_property
    def requirements(self) -> list[Requirement]:
        """What the project needs, the framework first."""
        project = self.document["project"]
        lines = list(project["dependencies"])
        for more in (project.get("optional-dependencies", {}), self.document.get("dependency-groups", {})):
            lines += [line for group in more.values() for line in group]
        return [parse(line) for line in lines]

    @property
    def plugins(self) -> list[str]:
        """The modules of the pytest plugins among its requirements, as they are installed here."""
        refused = self.settings.get("addopts", "").split()
        entries = [entry for one in self.requirements for entry in plugins_in(one.name)]
        return list(dict.fromkeys(entry.module for entry in entries if f"no:{entry.name}" not in refused))

    @property
    def files(self) -> set[Path]:
        """Everything in the folder."""
        return set(self.folder.rglob("*"))

    def run_tests(
        self,
        python: str,
        *options: str,
        plugins: Sequence[str] | None = None,
        timeout: float = 300,
        patience: float = 30,
    ) -> subprocess.CompletedProcess[str]:
        """Run `pytest` in the folder with this interpreter; raise HungError if something does not end.

        The run writes nothing into the folder. pytest loads these plugins, by default all that are installed. `timeout`
        is in seconds, as is `patience`, the time for processes that end by themselves once the run has ended.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        if plugins is not None:
            environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": ",".join(plugins)}
        command = [python, "-B", "-m", "pytest", "-p", "no:cacheprovider", *options]
        # The pipe ends with the last process that holds it, so this also waits for processes that the tests started.
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired as expired:
                end(running_in_session(process.pid) or [process.pid])
                so_far = (expired.output or b"").decode(errors="replace")
                raise HungError(f"{self.name}: the tests did not end in {timeout:g} s\n{so_far}") from None
        # A child that is about to end, such as a tracker of multiprocessing, may outlive the run for a moment.
        limit = time.monotonic() + patience
        while (left := running_in_session(process.pid)) and (rest := limit - time.monotonic()) > 0:
            wait_for_end(left[0], rest)
        if left:
            end(left)
            raise HungError(f"{self.name}: the tests left {len(left)} processes running\n{output}")
        return subprocess.CompletedProcess(command, process.returncode, output)


PROJECTS = [Project(path.parent) for path in sorted(FOLDER.glob("*/pyproject.toml"))]


def parse(line: str) -> Requirement:
    """Return a requirement; raise ValueError if it is not of the form `name[extras]>=version`."""
    found = _REQUIREMENT.fullmatch(line)
    if found is None:
        raise ValueError(f"{line!r} is no requirement such as 'pika>=1.0.0'")
    return Requirement(line, found["name"], found["extras"] or "", found["bound"])


def plugins_in(name: str) -> EntryPoints:
    """Return the pytest plugins of an installed distribution."""
    return distribution(name).entry_points.select(group="pytest11")


def passed_count(output: str) -> int:
    """Return how many tests passed, as pytest's last lines say."""
    found = re.findall(r"(\d+) passed", output)
    return int(found[-1]) if found else 0


def running_in_session(leader: int) -> Sequence[int]:
    """Return the processes of a session that are running; only Linux can say."""
    running = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the name in parentheses: state, parent, process group, session.
            state, _, _, session = path.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state not in "ZX":
            running.append(int(path.parent.name))
    return running


def wait_for_end(process: int, seconds: float) -> None:
    """Wait until a process has ended, which need not be a child of this one."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process)
        try:
            select.select([descriptor], [], [], seconds)
        finally:
            os.close(descriptor)


def end(processes: Sequence[int]) -> None:
    """End processes at once."""
    for process in processes:
        try:
            os.kill(process, 9)
        except OSError:
            continue
