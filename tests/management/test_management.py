"""leveret's management API answers every scenario as the real server did; LEVERET_ORACLES adds runs on live servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.semantics.target import oracles

from . import scenarios, target
from .scenario import SCENARIOS, Scenario, run, transcripts

scenarios.load_all()
CASES = SCENARIOS.cases()
ORACLES = oracles()
LIVE = [case for case in CASES if case.values[1] in ORACLES]


def with_crashes(answer: list[Any], expected: list[Any]) -> list[Any]:
    """Return an answer as RabbitMQ gives it where its handler crashes: leveret refuses such a request."""
    is_crash = (answer[0], *answer[1:2], *expected[1:2]) == (expected[0], 400, 500)
    return expected if is_crash else answer


@pytest.mark.parametrize(("scenario", "version"), CASES)
def test_leveret_answers_as_the_server_did(scenario: Scenario, version: str) -> None:
    with target.leveret(version) as (endpoint, asking):
        answers = run(scenario, endpoint, asking)

    expected = transcripts.load(version, scenario.area, scenario.name) or []
    if len(answers) == len(expected):
        answers = [*map(with_crashes, answers, expected)]
    transcripts.check(scenario, version, answers)


@pytest.mark.parametrize(("scenario", "version"), LIVE)
def test_the_server_still_answers_so(scenario: Scenario, version: str) -> None:
    with target.oracle(ORACLES[version], version) as (endpoint, asking):
        answers = run(scenario, endpoint, asking)

    transcripts.check(scenario, version, answers)
