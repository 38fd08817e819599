"""leveret answers every scenario as the real server did; LEVERET_ORACLES adds runs on live servers."""

from __future__ import annotations

import pytest

from tests.systems import needs_port_again

from . import scenarios, target, transcripts
from .record import difference
from .scenario import ALL_VERSIONS, SCENARIOS, Scenario, run

scenarios.load_all()
# Maintenance closes the port, and its end opens it again.
MARKS = {"operators_maintenance": [needs_port_again]}
CASES = [
    pytest.param(it, version, id=f"{it.id}-{version}", marks=MARKS.get(it.area, []))
    for it in SCENARIOS.values()
    for version in it.versions
]
ORACLES = target.oracles()


@pytest.mark.parametrize(("scenario", "version"), CASES)
def test_leveret_answers_as_the_server_did(scenario: Scenario, version: str) -> None:
    expected = transcripts.load(version, scenario.area, scenario.name)
    assert expected is not None, f"{scenario.id} has no transcript of {version}"

    with target.leveret(version, has_settings=scenario.has_settings) as endpoint:
        got = run(scenario, endpoint)

    if got != expected:
        pytest.fail(difference(expected, got), pytrace=False)


LIVE = [
    pytest.param(it, version, id=f"{it.id}-{version}")
    for version in ALL_VERSIONS
    for it in SCENARIOS.values()
    if version in ORACLES and version in it.versions and not it.needs_own_node and not it.has_settings
]


@pytest.mark.parametrize(("scenario", "version"), LIVE)
def test_the_server_still_answers_so(scenario: Scenario, version: str) -> None:
    expected = transcripts.load(version, scenario.area, scenario.name)
    assert expected is not None, f"{scenario.id} has no transcript of {version}"

    with target.oracle(ORACLES[version], version) as endpoint:
        got = run(scenario, endpoint)

    if got != expected:
        pytest.fail(difference(expected, got), pytrace=False)
