"""Each project in examples/frameworks has its page and its row in the table of releases, and nothing else has one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.frameworks.projects import PROJECTS, Project, parse

FOLDER = "docs/how-to/frameworks"
PAGES = [project.name for project in PROJECTS]


@pytest.fixture(scope="module")
def rows(root: Path) -> dict[str, str]:
    """The rows of the table on the index page, by project."""
    text = (root / FOLDER / "index.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| \[([\w-]+)\]\(\1\.md\) \| (.*) \|$", text, re.MULTILINE))


def test_each_project_has_a_page_and_each_page_a_project(root: Path) -> None:
    pages = {path.stem for path in (root / FOLDER).glob("*.md")} - {"index"}

    missing = [f"{FOLDER}/{name}.md is missing" for name in PAGES if name not in pages]
    missing += [f"examples/frameworks/{name}/pyproject.toml is missing" for name in sorted(pages) if name not in PAGES]

    assert PAGES
    assert missing == []


def test_each_project_has_its_row_in_the_table_of_releases(rows: dict[str, str]) -> None:
    missing = [f"{FOLDER}/index.md has no row for {name}" for name in PAGES if name not in rows]
    missing += [f"examples/frameworks/{name}/pyproject.toml is missing" for name in rows if name not in PAGES]

    assert missing == [], "print the rows with: python -m tests.frameworks.versions NAME"


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_the_table_names_the_oldest_releases_that_the_project_allows(project: Project, rows: dict[str, str]) -> None:
    oldest, _, _ = rows.get(project.name, "").partition(" | ")
    bounds = [f"{one.name} {one.oldest}" for one in project.requirements if one.oldest and not one.is_tool]

    assert bounds, f"{project.name} names no oldest release of its framework"
    assert [bound for bound in bounds if bound not in oldest] == []


def test_everything_that_a_project_needs_is_installed_for_the_tests(root: Path) -> None:
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    installed = {parse(line).name.lower() for line in (*extras["dev"], *extras["examples"], *extras["pytest"])}

    missing = [
        f"pyproject.toml names no {one.name} in the extra `dev`, which {project.name} needs"
        for project in PROJECTS
        for one in project.requirements
        if one.name.lower() not in installed
    ]

    assert missing == []


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_page_shows_its_project(project: Project, root: Path) -> None:
    page = root / FOLDER / f"{project.name}.md"

    assert f'title="examples/frameworks/{project.name}/' in page.read_text(encoding="utf-8")
