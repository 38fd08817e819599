"""Changes in a series of numbers: steps and growths are found where they are, and noise is none."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from leveret.pipeline.kernel.subjects.changes import LevelChange, changes_in


def _changes(values: Sequence[int]) -> list[LevelChange]:
    return changes_in(np.array(values, np.int64))


def test_step_is_where_the_level_changes() -> None:
    assert _changes([5] * 16 + [20] * 24) == [LevelChange(16, "step", 5, 20, 16, 24, True)]


def test_each_of_two_steps_is_found_and_only_the_last_holds() -> None:
    assert _changes([5] * 16 + [20] * 10 + [8] * 10) == [
        LevelChange(16, "step", 5, 20, 16, 10, False),
        LevelChange(26, "step", 20, 8, 10, 10, True),
    ]


@pytest.mark.parametrize(("before", "after", "is_enough"), [(21, 3, True), (20, 3, False), (6, 6, True), (6, 5, False)])
def test_step_needs_evidence(before: int, after: int, is_enough: bool) -> None:
    assert bool(_changes([0] * before + [1] * after)) == is_enough


def test_runs_that_stand_out_are_no_step_and_hide_none() -> None:
    assert _changes([5, 5, 90, 5, 5, 5, 0, 5, 5, 5, 5, 5, 5, 90, 5, 5, 5, 5, 90, 90]) == []

    steps = _changes([5, 5, 90, 5, 5, 5, 0, 5, 5, 5, 9, 9, 9, 90, 9, 9, 0, 9, 9, 9])

    assert [(step.start, step.before, step.after) for step in steps] == [(10, 5, 9)]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5])
def test_test_that_fails_at_random_has_no_change(share: float) -> None:
    dice = random.Random(5)
    runs = [int(dice.random() < share) for _ in range(400)]

    assert [end for end in range(12, 400, 4) if _changes(runs[max(0, end - 100) : end])] == []


def test_growth_begins_after_the_last_run_at_the_lowest() -> None:
    assert _changes([0] * 10 + [1 + n // 3 for n in range(30)]) == [LevelChange(10, "growth", 0, 10, 10, 30, True)]


def test_run_without_leftovers_does_not_hide_the_start_of_a_growth() -> None:
    values = [0] * 10 + list(range(1, 31))
    values[25] = values[-1] = 0

    assert _changes(values) == [LevelChange(10, "growth", 0, 29, 10, 30, True)]


def test_growth_from_the_first_runs_on_has_no_start() -> None:
    assert [(growth.start, growth.kind) for growth in _changes(range(20))] == [(None, "growth")]


def test_two_steps_up_are_no_growth() -> None:
    assert [change.kind for change in _changes([0] * 12 + [5] * 12 + [9] * 12)] == ["step", "step"]
