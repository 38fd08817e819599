"""The tests that need what the extra `dev-all` brings and `dev` does not: Spark, a browser, a second type checker.

Where it is missing, these tests are left out, and the end of the run says so. `python -m tests.extras -n auto` runs
them and no others; `.ci/run` does so, once it has run the README's second command.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.scheduling import IN_BROWSER, ON_SPARK

ROOT: Final = Path(__file__).parents[1]
# By the module that they need: what they are, and the beginnings of their ids.
TABLE: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "pyspark": (
        "on Spark",
        (
            *ON_SPARK,
            "tests/spark/",
            "tests/pipeline/test_session_java.py",
            "tests/pipeline/test_command.py::test_a_master_that_does_not_answer_is_named_at_once",
            "tests/pipeline/test_command.py::test_an_error_of_spark_is_one_line_and_no_difference",
        ),
    ),
    "playwright": (
        "in a browser",
        (*IN_BROWSER[:-1], "tests/site/test_in_browser.py", "tests/site/test_playground.py"),
    ),
    "basedpyright": (
        "with basedpyright",
        ("tests/typing/test_checkers.py::test_a_users_mistakes_are_reported_and_nothing_else[pyright]",),
    ),
}


@cache
def missing() -> list[str]:
    """Return the modules of the table that are not installed."""
    return [module for module in TABLE if find_spec(module) is None]


def is_left_out(nodeid: str) -> bool:
    """Return whether a folder, a file or a test, by the beginning of its id, cannot run here."""
    return any(nodeid.startswith(TABLE[module][1]) for module in missing())


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what needs a module that is not installed here."""
    if not collection_path.is_relative_to(ROOT):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    return is_left_out(f"{path}/" if collection_path.is_dir() else path) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out single tests of a file."""
    items[:] = [item for item in items if not is_left_out(item.nodeid)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end of a run of all tests what was left out."""
    kinds = [TABLE[module][0] for module in missing()]
    if kinds and config.args_source is not pytest.Config.ArgsSource.ARGS:
        terminalreporter.write_line(
            f"left out: the tests {', '.join(kinds)}; pip install -e '.[dev-all]' brings what they need"
        )


if __name__ == "__main__":
    starts = [start for _, several in TABLE.values() for start in several]
    # A file of a folder that is here too would run twice.
    paths = [start for start in starts if not any(start != other and start.startswith(other) for other in starts)]
    sys.exit(pytest.main([*paths, *sys.argv[1:]]))
