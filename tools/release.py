"""The checklist of a release, carried out: each line is checked, and the first thing to do next is printed.

    python tools/release.py                     check everything that holds before a release
    python tools/release.py --only wheel,page   check some of it
    python tools/release.py --tag               check everything, then make the tag in this clone

Nothing is ever pushed or uploaded: pushing the tag is yours to do, and .github/workflows/publish.yml publishes. Without
`--tag` nothing outside a temporary folder changes. docs/releasing.md explains the steps.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LAST_LINES = 40


class NotReadyError(Exception):
    """A step that does not hold, with what to do about it."""


@dataclass(frozen=True)
class Release:
    """What is about to be released, and a folder to build it in."""

    version: str
    folder: Path

    @property
    def tag(self) -> str:
        """The name of the tag."""
        return f"v{self.version}"

    @property
    def files(self) -> list[Path]:
        """The wheel and the sdist, built on first use."""
        target = self.folder / "dist"
        if not target.exists():
            run(sys.executable, "-m", "build", "--outdir", str(target), str(ROOT))
        return sorted(target.iterdir())


def check_tree(release: Release) -> str:
    """Check that what is built is what is committed."""
    changed = run("git", "status", "--porcelain")
    if changed:
        raise NotReadyError(f"commit or remove these files:\n{changed}")
    return f"commit {run('git', 'rev-parse', '--short', 'HEAD')}"


def check_branch(release: Release) -> str:
    """Check that the release is made from main, as the branch on GitHub has it if there is one."""
    branch = run("git", "rev-parse", "--abbrev-ref", "HEAD")
    if branch != "main":
        raise NotReadyError(f"the branch is {branch}; merge it, then: git switch main")
    if not run("git", "remote"):
        return "main, without a remote to compare with"
    run("git", "fetch", "--quiet", "origin", "main")
    if run("git", "rev-parse", "HEAD") != run("git", "rev-parse", "origin/main"):
        raise NotReadyError("main differs from origin/main; pull or push first, and wait for the workflows")
    return "main, as on origin"


def check_version(release: Release) -> str:
    """Check that the version is new, and that the CHANGELOG has it first, with a date."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", release.version):
        raise NotReadyError(f"version {release.version!r} in pyproject.toml is not like 1.2.3 or 1.2.3rc1")
    heading = re.search(r"^## \[(.+?)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if heading is None or heading[1] != release.version:
        found = "none" if heading is None else heading[1]
        raise NotReadyError(
            f"the first heading of CHANGELOG.md is of {found}, and pyproject.toml has {release.version}"
        )
    today = date.today().isoformat()
    if heading[2] != today:
        raise NotReadyError(f"CHANGELOG.md says {heading[2]!r}; write: ## [{release.version}] - {today}")
    return f"{release.version}, {today}"


def check_tag(release: Release) -> str:
    """Check that the tag does not exist, or stands on this commit."""
    tagged = run("git", "tag", "--list", release.tag)
    if tagged and run("git", "rev-list", "-n", "1", release.tag) != run("git", "rev-parse", "HEAD"):
        raise NotReadyError(f"{release.tag} is the tag of another commit; give pyproject.toml a new version")
    return f"{release.tag} {'stands here' if tagged else 'is free'}"


def check_sessions(release: Release) -> str:
    """Run what has to hold for every commit: tests, types, style, documentation. This takes a while."""
    run(sys.executable, "-m", "nox", "-s", "tests-3.11", "examples", "types", "lint", "docs")
    return "tests on CPython 3.11, examples, types, style, documentation"


def check_lowest(release: Release) -> str:
    """Run the tests of each extra with the oldest releases that it allows."""
    run(sys.executable, "-m", "nox", "-s", "lowest")
    return "each extra works with its lower bounds"


def check_frameworks(release: Release) -> str:
    """Run the examples of the frameworks with their oldest and newest releases."""
    run(sys.executable, "-m", "nox", "-s", "frameworks")
    return "each framework works with its oldest and newest release"


def check_page(release: Release) -> str:
    """Build both files, and check that PyPI can show their page."""
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, release.files))
    return ", ".join(f"{path.name} ({path.stat().st_size // 1000} kB)" for path in release.files)


def check_contents(release: Release) -> str:
    """Run the tests about what is in the files, and whether they work without a network."""
    run(sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/release")
    return "tests/release pass"


def check_links(release: Release) -> str:
    """Check that links between the files lead somewhere."""
    run(sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/house/test_docs.py")
    return "every link between files leads somewhere"


def check_wheel(release: Release) -> str:
    """Install the wheel as a user does, from PyPI's libraries, and pass the first test of the README."""
    (wheel,) = (path for path in release.files if path.suffix == ".whl")
    folder = release.folder / "user"
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(str(python), "-m", "pip", "install", "-q", f"leveret[pytest] @ {wheel.as_uri()}", "pika")
    example = _EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    if example is None:
        raise NotReadyError("README.md has no example in Python")
    (folder / "test_first.py").write_text(example[1], encoding="utf-8")
    run(str(python), "-m", "pytest", "-q", "test_first.py", cwd=folder)
    return run(str(python), "-m", "pip", "list", "--format=freeze", cwd=folder).replace("\n", " ")


# In this order: what takes a second stands before what takes minutes.
STEPS: dict[str, Callable[[Release], str]] = {
    "tree": check_tree,
    "branch": check_branch,
    "version": check_version,
    "tag": check_tag,
    "page": check_page,
    "contents": check_contents,
    "links": check_links,
    "wheel": check_wheel,
    "lowest": check_lowest,
    "frameworks": check_frameworks,
    "sessions": check_sessions,
}


def main(arguments: list[str] | None = None) -> int:
    """Check each step, make the tag if it was asked for, and return the exit status."""
    options = parser().parse_args(arguments)
    if options.tag and options.only:
        parser().error("--tag needs every step; leave --only out")
    with tempfile.TemporaryDirectory(prefix="leveret-release-") as folder:
        version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
        release = Release(version, Path(folder))
        failed = [name for name in options.only or STEPS if not holds(name, release)]
    if failed:
        print(f"\nnot ready: {', '.join(failed)}")
        return 1
    if not options.tag:
        print(f"\n{'these steps hold' if options.only else 'ready'}; `python tools/release.py --tag` makes the tag")
        return 0
    if not run("git", "tag", "--list", release.tag):
        run("git", "tag", "--annotate", release.tag, "--message", f"leveret {release.version}")
    print(f"\n{release.tag} stands on this commit. To publish it: git push origin {release.tag}")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the options."""
    made = argparse.ArgumentParser(prog="tools/release.py", description="Check that a version is ready to release.")
    made.add_argument("--only", type=names_of_steps, help=f"check only these, of {','.join(STEPS)}")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="change nothing (this is the default)")
    what.add_argument("--tag", action="store_true", help="make the tag in this clone if every step holds")
    return made


def names_of_steps(text: str) -> list[str]:
    """Return the steps that a user named."""
    names = text.split(",")
    if unknown := [name for name in names if name not in STEPS]:
        raise argparse.ArgumentTypeError(f"unknown step {unknown[0]!r}; expected some of {', '.join(STEPS)}")
    return names


def holds(name: str, release: Release) -> bool:
    """Check one step and print how it went."""
    started = time.monotonic()
    try:
        detail = STEPS[name](release)
    except NotReadyError as problem:
        print(f"FAIL  {name:10} {problem}", flush=True)
        return False
    print(f"ok    {name:10} {detail} ({time.monotonic() - started:.0f} s)", flush=True)
    return True


def run(*command: str, cwd: Path = ROOT) -> str:
    """Run a command and return what it printed; raise NotReadyError with the end of that if it fails."""
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        lines = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        raise NotReadyError(f"this command failed: {' '.join(command)}\n{lines}")
    return done.stdout.strip("\n")


if __name__ == "__main__":
    sys.exit(main())
