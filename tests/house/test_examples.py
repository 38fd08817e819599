"""The examples run, and say what they show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import SourceFile


def test_every_example_is_an_application_its_test_and_a_story(root: Path) -> None:
    folders = [path for path in sorted((root / "examples").iterdir()) if path.is_dir() and path.name != "__pycache__"]

    incomplete = [
        folder.name for folder in folders if not (folder / "story.py").exists() or not list(folder.glob("test_*.py"))
    ]

    assert folders
    assert incomplete == []


def test_the_applications_know_nothing_of_leveret(python_files: list[SourceFile]) -> None:
    applications = [
        file
        for file in python_files
        if file.path.startswith("examples/") and file.path.count("/") == 2
        if not file.path.rpartition("/")[2].startswith(("story", "test_", "conftest", "__init__"))
    ]

    assert applications
    assert [file.path for file in applications if "leveret" in file.text] == []


@pytest.mark.timeout(300)
def test_the_examples_tell_what_was_delivered_and_dead_lettered(root: Path) -> None:
    # One of them starts Spark.
    ran = subprocess.run([sys.executable, "-m", "examples"], cwd=root, capture_output=True, text=True, timeout=280)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "delivered" in ran.stdout
    assert "dead-lettered" in ran.stdout
