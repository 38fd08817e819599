"""A short run of the campaign of correct programs: no strict check raises a false alarm."""

from __future__ import annotations

import logging

import pytest

from tests.checks.correct_programs import CLIENTS, STEPS, plan, run

SEEDS = range(1, 41)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_correct_program_has_no_finding(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    # Clients write long tracebacks for the connections that these programs lose.
    caplog.set_level(logging.CRITICAL)

    client, steps, found = run(seed)

    assert found == [], f"{client}: {', '.join(steps)}"


def test_the_run_has_every_client_and_every_step() -> None:
    plans = [plan(seed) for seed in SEEDS]

    assert {one.client for one in plans} == {*CLIENTS}
    assert {step for one in plans for step in one.steps} == {*STEPS}
