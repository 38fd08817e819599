"""The oldest and the newest releases that the projects in examples/frameworks work with.

    python -m tests.frameworks.versions [--python PYTHON] [--newest] [NAME ...]

For each project, or the named ones, it makes two environments. One has the lower bounds of the project's
pyproject.toml, the other the newest releases. It runs the project's tests in both and prints a table in Markdown, which
docs/how-to/frameworks/index.md shows. If a run fails, it prints the output of that run and exits with 1. PYTHON is the
interpreter to use, by default the one that runs this. `--newest` leaves the oldest releases out: some of them are older
than PYTHON, and cannot be installed there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.frameworks.projects import PROJECTS, ROOT, HungError, Project, passed_count

NAMES = [project.name for project in PROJECTS]
# A table of two columns, as pip prints it, is harder to read for a program than this.
_LIST = ["list", "--format=json", "--disable-pip-version-check"]


@dataclass(frozen=True)
class Result:
    """What a run of a project's tests came to; `versions` are those of the framework and what it is used with."""

    versions: str
    passed: int
    failure: str

    def __str__(self) -> str:
        return f"{self.versions}: {f'{self.passed} passed' if not self.failure else 'failed'}"


class CannotInstallError(Exception):
    """pip found no releases that fit together, or could not install them."""


def main(arguments: Sequence[str]) -> int:
    """Print the table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.frameworks.versions", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the interpreter to use")
    parser.add_argument("--newest", action="store_true", help="run with the newest releases only")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(NAMES)}; all by default")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown project {', '.join(unknown)}; expected one or more of {', '.join(NAMES)}")
    ages = ("newest",) if options.newest else ("oldest", "newest")
    failures = []
    print(f"On CPython {version_of(options.python)}:\n")
    print(f"| framework | {' | '.join(ages)} |\n|{' --- |' * (len(ages) + 1)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="leveret-frameworks-") as folder:
        wheel = build_wheel(Path(folder))
        for project in PROJECTS:
            if project.name in (options.names or NAMES):
                results = [
                    result_of(
                        project, options.python, wheel, Path(folder, f"{project.name}-{age}"), is_oldest=age == "oldest"
                    )
                    for age in ages
                ]
                print(f"| [{project.name}]({project.name}.md) | {' | '.join(map(str, results))} |", flush=True)
                failures += [result.failure for result in results if result.failure]
    print(*failures, sep="\n\n", file=sys.stderr)
    return 1 if failures else 0


def version_of(python: str) -> str:
    """Return the version of an interpreter."""
    return output_of(python, "-c", "import platform; print(platform.python_version())").strip()


def build_wheel(folder: Path) -> Path:
    """Return a wheel of leveret as it is in this checkout."""
    output_of(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def result_of(project: Project, python: str, wheel: Path, folder: Path, *, is_oldest: bool) -> Result:
    """Return what the tests of a project come to in a new environment in this folder."""
    try:
        environment = install(project, python, wheel, folder, is_oldest=is_oldest)
    except CannotInstallError as error:
        bounds = ", ".join(f"{one.name} {one.oldest}" for one in project.requirements if one.oldest and not one.is_tool)
        return Result(bounds if is_oldest else "newest", 0, f"{project.name}: {error}")
    versions = installed_in(project, environment)
    try:
        ran = project.run_tests(environment, "-q", timeout=300)
    except HungError as error:
        return Result(versions, 0, str(error))
    return Result(versions, passed_count(ran.stdout), f"{project.name}:\n{ran.stdout}" if ran.returncode else "")


def install(project: Project, python: str, wheel: Path, folder: Path, *, is_oldest: bool) -> str:
    """Make an environment with what a project needs, and return its interpreter."""
    output_of(python, "-m", "venv", str(folder))
    environment = str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    wanted = [one.pinned if is_oldest else one.text for one in project.requirements if one.name != "leveret"]
    extras = ",".join(one.extras for one in project.requirements if one.name == "leveret")
    output_of(environment, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[{extras}]", *wanted)
    return environment


def installed_in(project: Project, python: str) -> str:
    """Return the releases of the framework and what it is used with, as the table shows them."""
    installed = {one["name"].lower(): one["version"] for one in json.loads(output_of(python, "-m", "pip", *_LIST))}
    names = [one.name for one in project.requirements if not one.is_tool]
    return ", ".join(f"{name} {installed[name.lower()]}" for name in names)


def output_of(*command: str) -> str:
    """Run a command and return what it prints; raise CannotInstallError if it fails."""
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise CannotInstallError(f"{' '.join(command[1:4])} failed:\n{ran.stderr}")
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
