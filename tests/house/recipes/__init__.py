"""Recipes: for each row of the table in CONTRIBUTING.md, a change as the row describes it.

A recipe adds something that RabbitMQ does not have, so that it cannot collide with what leveret learns later. It writes
a test of what it adds; that test shows that the change works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.house.copies import Tree


@dataclass(frozen=True)
class Recipe:
    """How one row of CONTRIBUTING.md is carried out in a copy of the repository."""

    row: str
    change: Callable[[Tree], None]
    # Which of the row's tests to run, as `pytest -k`: those that look at everything take long.
    only: str = ""
    # What names a file in a failure beside its path: a table or a call that is defined in it, by the file's path.
    also_named: dict[str, str] = field(default_factory=dict)
    # The files of the row that are forgotten without the others, because a failure names either these or those; by
    # default the first one.
    apart: tuple[str, ...] = ()


RECIPES: Final[dict[str, Recipe]] = {}


def recipe(
    row: str, *, only: str = "", also_named: dict[str, str] | None = None, apart: tuple[str, ...] = ()
) -> Callable[[Callable[[Tree], None]], Callable[[Tree], None]]:
    """Register a function as the recipe of a row, named by the row's first cell."""

    def register(change: Callable[[Tree], None]) -> Callable[[Tree], None]:
        assert row not in RECIPES, row
        RECIPES[row] = Recipe(row, change, only, also_named or {}, apart)
        return change

    return register
