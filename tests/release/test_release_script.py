"""tools/release.py in a small repository of its own: what it accepts, and what it says to do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from tests.release.conftest import ROOT

QUICK = "tree,branch,version,tag"
CHANGELOG = "# Changelog\n\n## [{version}] - {when}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository on main that is ready to release 1.2.0."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/release.py", tmp_path / "tools")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n', encoding="utf-8")
    write_changelog(tmp_path, "1.2.0", date.today().isoformat())
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path)
    return tmp_path


def test_script_accepts_a_repository_that_is_ready(repository: Path) -> None:
    status, output = check(repository)

    assert status == 0
    assert re.findall(r"^ok +(\w+)", output, re.MULTILINE) == QUICK.split(",")


def test_script_refuses_what_is_not_committed(repository: Path) -> None:
    (repository / "notes.txt").write_text("later", encoding="utf-8")

    status, output = check(repository)

    assert status == 1
    assert "FAIL  tree" in output
    assert "notes.txt" in output


def test_script_refuses_a_heading_without_a_date(repository: Path) -> None:
    write_changelog(repository, "1.2.0", "unreleased")
    commit(repository)

    status, output = check(repository)

    assert status == 1
    assert f"write: ## [1.2.0] - {date.today().isoformat()}" in output


def test_script_refuses_a_version_that_the_changelog_does_not_name(repository: Path) -> None:
    write_changelog(repository, "1.1.0", date.today().isoformat())
    commit(repository)

    status, output = check(repository)

    assert status == 1
    assert "the first heading of CHANGELOG.md is of 1.1.0, and pyproject.toml has 1.2.0" in output


def test_script_refuses_a_number_that_was_used(repository: Path) -> None:
    git(repository, "tag", "v1.2.0")
    (repository / "more.txt").write_text("more", encoding="utf-8")
    commit(repository)

    status, output = check(repository)

    assert status == 1
    assert "v1.2.0 is the tag of another commit" in output


def test_script_makes_no_tag_unless_every_step_is_checked(repository: Path) -> None:
    status, output = check(repository, "--tag")

    assert status == 2
    assert "--tag needs every step" in output
    assert git(repository, "tag", "--list") == ""


def test_page_names_the_steps_of_the_script() -> None:
    page = (ROOT / "docs/releasing.md").read_text(encoding="utf-8")
    script = (ROOT / "tools/release.py").read_text(encoding="utf-8")

    steps = re.findall(r'^    "(\w+)": check_\w+,$', script, re.MULTILINE)

    assert steps
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(steps)


def check(repository: Path, *arguments: str) -> tuple[int, str]:
    """Run the quick steps, and return the exit status and what was printed."""
    command = [sys.executable, "tools/release.py", "--only", QUICK, *arguments]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def write_changelog(repository: Path, version: str, when: str) -> None:
    (repository / "CHANGELOG.md").write_text(CHANGELOG.format(version=version, when=when), encoding="utf-8")


def commit(repository: Path) -> None:
    git(repository, "add", "--all")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message=Change")


def git(repository: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True, text=True).stdout
