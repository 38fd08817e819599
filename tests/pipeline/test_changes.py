"""Changes in a series of numbers: steps and growths are found where they are, and noise is none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from leveret.pipeline.kernel.levels import changes_in


def _changes(values: Sequence[int], measure: str = "redeliveries") -> list[tuple[Any, ...]]:
    """Return the changes without their chances."""
    return [change[:-1] for change in changes_in(np.array(values, np.int64), measure)]


def test_step_is_where_the_level_changes() -> None:
    assert _changes([5] * 16 + [20] * 24) == [(16, "step", 5, 20, 16, 24, True)]


def test_each_of_two_steps_is_found_and_only_the_last_holds() -> None:
    assert _changes([5] * 16 + [20] * 10 + [8] * 10) == [
        (16, "step", 5, 20, 16, 10, False),
        (26, "step", 20, 8, 10, 10, True),
    ]


@pytest.mark.parametrize(("before", "after", "is_enough"), [(21, 3, True), (20, 3, False), (6, 6, True), (6, 5, False)])
def test_step_needs_evidence(before: int, after: int, is_enough: bool) -> None:
    assert [change[1] == "step" for change in _changes([0] * before + [1] * after, "published")] == [True] * is_enough


def test_runs_that_stand_out_are_no_step_and_hide_none() -> None:
    assert _changes([5, 5, 90, 5, 5, 5, 0, 5, 5, 5, 5, 5, 5, 90, 5, 5, 5, 5, 90, 90]) == []

    steps = _changes([5, 5, 90, 5, 5, 5, 0, 5, 5, 5, 9, 9, 9, 90, 9, 9, 0, 9, 9, 9])

    assert [(step[0], *step[2:4]) for step in steps] == [(10, 5, 9)]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5])
def test_test_that_fails_at_random_has_no_change(share: float) -> None:
    dice = random.Random(5)
    runs = [int(dice.random() < share) for _ in range(400)]

    windows = [_changes(runs[max(0, end - 100) : end]) for end in range(12, 400, 4)]
    assert [change for found in windows for change in found if change[1] != "rate"] == []


def test_growth_begins_after_the_last_run_at_the_lowest() -> None:
    assert _changes([0] * 10 + [1 + n // 3 for n in range(30)]) == [(10, "growth", 0, 10, 10, 30, True)]


def test_run_without_leftovers_does_not_hide_the_start_of_a_growth() -> None:
    values = [0] * 10 + list(range(1, 31))
    values[25] = values[-1] = 0

    assert _changes(values) == [(10, "growth", 0, 29, 10, 30, True)]


def test_growth_from_the_first_runs_on_has_no_start() -> None:
    assert [growth[:2] for growth in _changes(range(20))] == [(None, "growth")]


def test_two_steps_up_are_no_growth() -> None:
    assert [change[1] for change in _changes([0] * 12 + [5] * 12 + [9] * 12)] == ["step", "step"]


@pytest.mark.parametrize(
    "levels", [[(2, 15), (3, 17), (1, 14)], [(1, 14), (3, 17), (2, 15)], [(2, 15), (1, 17), (3, 14)]], ids=str
)
def test_a_series_of_three_levels_its_mirror_and_its_reverse_have_two_steps(levels: list[tuple[int, int]]) -> None:
    values = [level for level, runs in levels for _ in range(runs)]

    assert [step[:4] for step in _changes(values)] == [
        (levels[0][1], "step", levels[0][0], levels[1][0]),
        (levels[0][1] + levels[1][1], "step", levels[1][0], levels[2][0]),
    ]


SOMETIMES = [1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]


def test_a_test_that_becomes_flaky_has_another_rate_since_then() -> None:
    assert _changes([0] * 31 + [4 * bad for bad in SOMETIMES], "outcome") == [(31, "rate", 0, 9, 31, 29, True)]
    assert _changes([4 * bad for bad in SOMETIMES] + [0] * 31, "outcome")[0][1:4] == ("rate", 9, 0)


def test_spells_of_failures_are_no_rate() -> None:
    spells = [bad for length in (14, 9, 12, 8, 13, 9, 7) for bad in (0,) * length + (1,) * 4]

    assert _changes([4 * bad for bad in spells], "outcome") == []


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_of_random_series_at_most_one_in_a_hundred_has_another_rate(share: float) -> None:
    dice = random.Random(7)
    series = [[4 * (dice.random() < share) for _ in range(60)] for _ in range(300)]

    assert sum(bool(_changes(values, "outcome")) for values in series) <= 6


def test_the_chance_of_a_rate_is_that_of_shuffled_runs() -> None:
    dice = random.Random(11)
    values = [0] * 12 + [4, 4, 0, 4, 4, 0, 4, 4]
    (change,) = changes_in(np.array(values), "outcome")

    at_least = 0
    for _ in range(4000):
        dice.shuffle(values)
        at_least += any(found.chance <= change.chance for found in changes_in(np.array(values), "outcome"))

    assert abs(at_least / 4000 - change.chance) < 0.002
