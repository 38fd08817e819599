"""The rules of the house: what a machine can judge of how the code reads (docs/style.md).

A rule collects every offence before it fails, so one run shows them all. What a rule forgives stands beside the rule.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.house.repository import CORE, ROOT, SourceFile, read_all

if TYPE_CHECKING:
    from tests.house.pages import Page


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Pages | None:
    """Collect the blocks of the pages beside the tests about pages."""
    return Pages.from_parent(parent, path=file_path) if file_path.name == "test_docs_run.py" else None


class Pages(pytest.File):
    """All pages, as children of the file that tests them."""

    def collect(self) -> Iterator[Page]:
        """Return a module for each page that has something to run."""
        # Imported only if the pages are run: it takes longer than most runs of the other files.
        from tests.house.pages import collected

        return collected(self)


@pytest.fixture(scope="session")
def root() -> Path:
    """This is the folder that holds pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def text_files() -> list[SourceFile]:
    """These are all text files of the repository."""
    # Their trees are frozen with all that exists then: let that be no garbage.
    gc.collect()
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
