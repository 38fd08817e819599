"""The table of features and the scenarios name each other completely."""

from __future__ import annotations

from tests.features.table import matching, rows

from . import scenarios
from .scenario import SCENARIOS, transcripts

scenarios.load_all()
BEHAVIOURS = [behaviour for row in rows() for behaviour in row.behaviours]
NAMED = {name for behaviour in BEHAVIOURS for name in behaviour.proof}


def test_every_scenario_of_a_behaviour_exists() -> None:
    assert sorted(pattern for pattern in NAMED if not matching(pattern)) == []


def test_every_scenario_proves_a_behaviour() -> None:
    proved = {name for pattern in NAMED for name in matching(pattern)}
    missing = sorted(set(SCENARIOS) - proved)

    assert missing == [], "tools/features.toml names these in no behaviour"


def test_every_behaviour_has_a_proof_or_a_reason() -> None:
    assert [behaviour.name for behaviour in BEHAVIOURS if not behaviour.proof and not behaviour.reason] == []


def test_every_behaviour_stands_once() -> None:
    names = [behaviour.name for behaviour in BEHAVIOURS]

    assert len(names) == len(set(names))


def test_every_scenario_has_a_transcript_of_each_of_its_versions() -> None:
    missing = [
        f"tests/semantics/transcripts/{version}/{it.area}.json has no {it.name!r}"
        for it in SCENARIOS.values()
        for version in it.versions
        if transcripts.load(version, it.area, it.name) is None
    ]
    assert missing == []


def test_no_transcript_is_left_over() -> None:
    known = {(it.area, it.name, version) for it in SCENARIOS.values() for version in it.versions}
    left_over = sorted(set(transcripts.recorded()) - known)

    assert [
        f"tests/semantics/scenarios/{area}.py has no {name!r} of {version}" for area, name, version in left_over
    ] == []
