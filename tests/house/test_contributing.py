"""Each row of the table in CONTRIBUTING.md is carried out in a copy of the repository.

A row names the files to write and the tests that find a forgotten one. So its recipe touches these files and no other,
the tests pass with all of them, and with some left out they fail and name each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.copies import Tree, copy_repository, is_named
from tests.house.forked_runs import Runner
from tests.house.recipes import RECIPES, events, evidence, house, model, observing, protocol
from tests.house.repository import ROOT

# Importing them registers their recipes.
MODULES = (events, evidence, house, model, observing, protocol)
_FOLDERS = ("src/", "pytest_plugin/", "tests/", "docs/", "tools/", "examples/")


class Row(NamedTuple):
    """One row: what to add, the paths to write (with <names> that the author chooses), and the tests that catch it."""

    name: str
    patterns: tuple[str, ...]
    tests: tuple[str, ...]


def read_rows() -> dict[str, Row]:
    """Return the rows of the table, by their first cell."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Where do I add")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line[:2] == "| "]
    return {name: Row(name, paths_in(files), paths_in(tests)) for name, files, tests in rows[2:]}


def paths_in(cell: str) -> tuple[str, ...]:
    """Return the paths in a cell."""
    words = re.findall(r"`([^` ]+)`", cell)
    return tuple(
        word for word in words if word in ("README.md", "pyproject.toml") or (word.startswith(_FOLDERS) and "." in word)
    )


def forgotten_of(name: str, *, is_apart: bool) -> list[str]:
    """Return what is left out at once: the files that all others depend on, or those others."""
    patterns = ROWS[name].patterns
    apart = RECIPES[name].apart or patterns[:1]
    return [path for path in patterns if (path in apart) == is_apart]


ROWS = read_rows()


class Carried(NamedTuple):
    """A row that was carried out."""

    tree: Tree
    # The files of the recipe by the row's pattern.
    files: dict[str, list[str]]
    # The row's tests, and those that the recipe wrote.
    tests: list[str]
    has_own_test: bool
    only: list[str]

    def run_tests(self, runner: Runner) -> tuple[int, str]:
        """Return the exit status of pytest, and what it printed."""
        there = [path for path in self.tests if (self.tree.root / path).exists()]
        return runner.run(self.tree.root, [*self.only, *there])


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """Return what runs the tests of copies."""
    runner = Runner()
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def carry_out(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Carried]:
    """Return how to carry out a row, once in this module. The rows take turns with one copy."""
    root = tmp_path_factory.mktemp("copy") / "leveret"
    copy_repository(root)
    carried: dict[str, Carried] = {}
    current: list[Carried] = []

    def carry_out(name: str) -> Carried:
        if current and current[-1] is not carried.get(name):
            current.pop().tree.take_back()
        if name not in carried:
            carried[name] = carried_out(name, root)
        current[:] = [carried[name]]
        carried[name].tree.leave_out([])
        return carried[name]

    return carry_out


def carried_out(name: str, root: Path) -> Carried:
    """Carry out a row in a copy that is as the repository."""
    tree, row, recipe = Tree(root), ROWS[name], RECIPES[name]
    try:
        recipe.change(tree)
    except BaseException:
        tree.take_back()
        raise
    files: dict[str, list[str]] = {pattern: [] for pattern in row.patterns}
    for path in tree.changed:
        files.setdefault(pattern_of(path, row.patterns) or f"no pattern of {name}", []).append(path)
    own = [path for path in (*tree.changed, *tree.shown) if re.search(r"/(?:test_\w+|scenarios/\w+)\.py$", path)]
    only = ["-k", recipe.only] if recipe.only else []
    tests = [path for path in (*row.tests, *own) if "/scenarios/" not in path]
    return Carried(tree, files, list(dict.fromkeys(tests)), bool(own), only)


def pattern_of(path: str, patterns: tuple[str, ...]) -> str | None:
    """Return the most exact of the patterns that a path matches."""
    for pattern in sorted(patterns, key=lambda each: (each.count("<"), -len(each))):
        if re.fullmatch(re.sub(r"<[^>]+>", r"[\\w.-]+", re.escape(pattern)), path):
            return pattern
    return None


def test_every_row_has_a_recipe_and_every_recipe_a_row() -> None:
    assert sorted(ROWS) == sorted(RECIPES)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_names_the_files_to_write_and_its_tests_pass(
    name: str, carry_out: Callable[[str], Carried], runner: Runner
) -> None:
    carried = carry_out(name)

    status, output = carried.run_tests(runner)

    assert all(carried.files.values()), carried.files
    assert list(carried.files) == list(ROWS[name].patterns)
    assert carried.has_own_test, "the recipe has no test of what it adds"
    assert status == pytest.ExitCode.OK, output


@pytest.mark.parametrize("is_apart", [True, False], ids=["the first", "the others"])
@pytest.mark.parametrize("name", ROWS)
def test_forgotten_files_are_named(
    name: str, is_apart: bool, carry_out: Callable[[str], Carried], runner: Runner
) -> None:
    carried = carry_out(name)
    forgotten = [path for pattern in forgotten_of(name, is_apart=is_apart) for path in carried.files[pattern]]
    carried.tree.leave_out(forgotten)

    status, output = carried.run_tests(runner)

    also_named = RECIPES[name].also_named
    unnamed = [path for path in forgotten if not is_named(path, output) and also_named.get(path, "-") not in output]
    assert status != pytest.ExitCode.OK, f"no test of {carried.tests} misses {forgotten}"
    assert unnamed == [], output
