"""The rules of the house: what a machine can judge of how the code reads (docs/style.md).

A rule collects every offence before it fails, so one run shows them all. What a rule forgives stands beside the rule.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.pages import Pages
from tests.house.repository import CORE, ROOT, SourceFile, read_all


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Pages | None:
    """Collect the blocks of the pages beside the tests about pages."""
    return Pages.from_parent(parent, path=file_path) if file_path.name == "test_docs_run.py" else None


@pytest.fixture(scope="session")
def root() -> Path:
    """This is the folder that holds pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def text_files() -> list[SourceFile]:
    """These are all text files of the repository."""
    return read_all()


@pytest.fixture(scope="session")
def python_files(text_files: list[SourceFile]) -> list[SourceFile]:
    """These are all Python files of the repository."""
    return [file for file in text_files if file.path.endswith(".py")]


@pytest.fixture(scope="session")
def source_files(python_files: list[SourceFile]) -> list[SourceFile]:
    """These are the Python files that users install."""
    return [file for file in python_files if file.path.startswith(("src/", "pytest_plugin/"))]


@pytest.fixture(scope="session")
def core_files(source_files: list[SourceFile]) -> list[SourceFile]:
    """These are the files below the server: no socket, no clock, no thread, no die."""
    return [file for file in source_files if file.path.startswith(CORE)]
