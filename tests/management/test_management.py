"""leveret's management API answers every scenario as the real server did; LEVERET_ORACLES adds runs on live servers."""

from __future__ import annotations

import pytest

from tests.semantics.target import oracles

from . import scenarios, target, transcripts
from .record import difference
from .scenario import SCENARIOS, Scenario, run

scenarios.load_all()
CASES = [pytest.param(it, version, id=f"{it.id}-{version}") for it in SCENARIOS.values() for version in it.versions]
ORACLES = oracles()
LIVE = [case for case in CASES if case.values[1] in ORACLES]


@pytest.mark.parametrize(("scenario", "version"), CASES)
def test_leveret_answers_as_the_server_did(scenario: Scenario, version: str) -> None:
    expected = transcripts.load(version, scenario.area, scenario.name)
    assert expected is not None, f"{scenario.id} has no transcript of {version}"

    with target.leveret(version) as (endpoint, asking):
        got = run(scenario, endpoint, asking)

    if got != expected:
        pytest.fail(difference(expected, got), pytrace=False)


@pytest.mark.parametrize(("scenario", "version"), LIVE)
def test_the_server_still_answers_so(scenario: Scenario, version: str) -> None:
    expected = transcripts.load(version, scenario.area, scenario.name)
    assert expected is not None, f"{scenario.id} has no transcript of {version}"

    with target.oracle(ORACLES[version], version) as (endpoint, asking):
        got = run(scenario, endpoint, asking)

    if got != expected:
        pytest.fail(difference(expected, got), pytrace=False)
