"""The examples run, and say what they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from examples.__main__ import STORIES
from tests.house.repository import SourceFile


def test_every_example_is_an_application_its_test_and_a_story(root: Path) -> None:
    # The projects in frameworks have no story: tests/house/test_frameworks.py says what they have.
    no_stories = ("__pycache__", "frameworks")
    folders = [path for path in sorted((root / "examples").iterdir()) if path.is_dir() and path.name not in no_stories]

    offences = [
        f"examples/{folder.name}/{name} is missing"
        for folder in folders
        for name in ("__init__.py", "story.py", "test_*.py")
        if not list(folder.glob(name))
    ]
    offences += [
        f"examples/__main__.py does not tell the story of {folder.name}"
        for folder in folders
        if folder.name not in STORIES
    ]

    assert folders
    assert offences == []


def test_the_applications_know_nothing_of_leveret(python_files: list[SourceFile]) -> None:
    applications = [
        file
        for file in python_files
        if file.path.startswith("examples/frameworks/") or re.fullmatch("examples/[^/]+/[^/]+", file.path)
        if not file.path.rpartition("/")[2].startswith(("story", "test_", "conftest", "__init__"))
    ]

    assert applications
    assert [file.path for file in applications if "leveret" in file.text] == []


def test_the_examples_tell_what_was_delivered_and_dead_lettered(root: Path) -> None:
    # Those on Spark are told by tests/spark/test_story.py and in examples/trace_to_spark, where there is a session.
    names = [name for name in STORIES if "spark" not in name]

    ran = subprocess.run(
        [sys.executable, "-m", "examples", *names], cwd=root, capture_output=True, text=True, timeout=300
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "delivered" in ran.stdout
    assert "dead-lettered" in ran.stdout


def test_the_examples_end_without_a_warning_or_a_skip_that_puzzles(root: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "examples", "unittest_only"], cwd=root, capture_output=True, text=True, timeout=300
    )

    assert "leveret warns: rejected_into_nothing: 1 message lost" in ran.stdout
    assert ran.stderr == ""


def test_an_example_that_cannot_run_here_is_named_at_the_end_with_what_it_needs(root: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "examples", "node"],
        cwd=root,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": ""},
        timeout=300,
    )

    assert ran.stdout == "These need more than the extra `examples` installs:\n  node: node is not installed\n"
