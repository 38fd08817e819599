"""leveret's management API answers every scenario as the real server did; LEVERET_ORACLES adds runs on live servers."""

from __future__ import annotations

import pytest

from tests.semantics.target import oracles

from . import scenarios, target
from .scenario import SCENARIOS, Scenario, run, transcripts

scenarios.load_all()
CASES = SCENARIOS.cases()
ORACLES = oracles()
LIVE = [case for case in CASES if case.values[1] in ORACLES]


@pytest.mark.parametrize(("scenario", "version"), CASES)
def test_leveret_answers_as_the_server_did(scenario: Scenario, version: str) -> None:
    with target.leveret(version) as (endpoint, asking):
        answers = run(scenario, endpoint, asking)

    transcripts.check(scenario, version, answers)


@pytest.mark.parametrize(("scenario", "version"), LIVE)
def test_the_server_still_answers_so(scenario: Scenario, version: str) -> None:
    with target.oracle(ORACLES[version], version) as (endpoint, asking):
        answers = run(scenario, endpoint, asking)

    transcripts.check(scenario, version, answers)
