"""The table of claimed behaviour and the scenarios name each other completely."""

from __future__ import annotations

import tomllib
from fnmatch import filter as matching
from pathlib import Path

from . import scenarios, transcripts
from .scenario import SCENARIOS

scenarios.load_all()
TABLE: dict[str, dict[str, list[str] | str]] = tomllib.loads(Path(__file__).with_name("coverage.toml").read_text())
NAMED = {name for rows in TABLE.values() for proof in rows.values() if isinstance(proof, list) for name in proof}


def test_every_scenario_in_the_table_exists() -> None:
    assert sorted(pattern for pattern in NAMED if not matching(SCENARIOS, pattern)) == []


def test_every_scenario_is_in_the_table() -> None:
    proved = {name for pattern in NAMED for name in matching(SCENARIOS, pattern)}
    assert sorted(set(SCENARIOS) - proved) == []


def test_every_row_has_a_proof_or_a_reason() -> None:
    assert [(section, row) for section, rows in TABLE.items() for row, proof in rows.items() if not proof] == []


def test_every_scenario_has_a_transcript_of_each_of_its_versions() -> None:
    missing = [
        f"{it.id} of {version}"
        for it in SCENARIOS.values()
        for version in it.versions
        if transcripts.load(version, it.area, it.name) is None
    ]
    assert missing == []


def test_no_transcript_is_left_over() -> None:
    known = {(it.area, it.name, version) for it in SCENARIOS.values() for version in it.versions}
    assert sorted(set(transcripts.recorded()) - known) == []
