"""What changed in a fleet of sixty runs is found with its commit, and the noise of slow machines is not."""

from __future__ import annotations

import pytest

from tests.pipeline.fleets import RUNS, STORIES, Fleet, judged, make

SEEDS = (14, 1, 7, 11, 5, 20, 0)


# `python -m tests.pipeline.fleets 120` counts over many fleets.
@pytest.mark.parametrize(("story", "seed"), [*zip(STORIES, SEEDS, strict=True)])
def test_the_story_of_a_fleet_is_found_and_nothing_else(story: str, seed: int) -> None:
    fleet = make(seed)

    assert fleet.story == story
    assert judged(fleet) == (True, [])


def _waits(queues: int, slowness: int) -> Fleet:
    """Return a fleet whose messages wait so many times as long in each queue in the last ten runs."""
    fleet = Fleet(0)
    for run in range(RUNS):
        for queue in range(queues):
            usual = (50_000 + 10_000 * queue) * (slowness if run >= RUNS - 10 else 1)
            fleet.add(run, "wait", usual + run * 7 % 5, queue=f"queue_{queue}")
    return fleet


def test_a_slow_machine_makes_no_queue_slower() -> None:
    assert _waits(4, 3).causes() == []


def test_a_slower_queue_is_said_with_its_times() -> None:
    (cause,) = _waits(1, 3).causes()

    assert str(cause) == "since c50, 9 runs ago: the time in queue_0 rose from 50 ms to 150 ms"


def test_a_time_that_grows_by_less_than_ten_milliseconds_is_no_change() -> None:
    fleet = Fleet(0)
    for run in range(RUNS):
        fleet.add(run, "wait", 3000 if run < 40 else 9000, queue="fast")

    assert fleet.causes() == []


def test_a_spell_like_those_of_other_tests_is_no_change() -> None:
    def fleet(others: int) -> Fleet:
        made = Fleet(0)
        for run in range(RUNS):
            made.add(run, "redeliveries", 3 if run >= RUNS - 6 else 0, test="test_0", queue="queue_0")
            made.add(run, "outcome", 0, test="test_0")
            for number in range(1, others + 1):
                is_slow = (run + 5 * number) % 20 < 8
                made.add(run, "redeliveries", 3 if is_slow else 0, test=f"test_{number}", queue=f"queue_{number}")
                made.add(run, "outcome", 0, test=f"test_{number}")
        return made

    assert [str(cause) for cause in fleet(0).causes()] == [
        "since c54, 5 runs ago: redeliveries in queue_0 rose from 0 to 3 in test_0"
    ]
    assert fleet(8).causes() == []
