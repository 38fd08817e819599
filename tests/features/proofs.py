"""The proofs of the rows in the table of features: the scenarios that a pattern selects, and their recordings."""

from __future__ import annotations

from collections import Counter
from fnmatch import filter as fnmatching
from functools import cache

from leveret.features import RECORDED, Row
from tests.semantics import scenarios, transcripts
from tests.semantics.scenario import SCENARIOS

scenarios.load_all()


def is_test(proof: str) -> bool:
    return proof.startswith("tests/")


@cache
def matching(pattern: str) -> list[str]:
    """Return the scenarios that a pattern selects; most patterns are names."""
    return fnmatching(SCENARIOS, pattern) if "*" in pattern else [pattern] * (pattern in SCENARIOS)


def scenarios_of(row: Row) -> set[str]:
    return {name for proof in row.proof if not is_test(proof) for name in matching(proof)}


def counted(names: set[str]) -> dict[str, int]:
    """Return how many of these scenarios have a transcript, by version."""
    found = Counter(
        version
        for name in names
        for version in SCENARIOS[name].versions
        if transcripts.load(version, SCENARIOS[name].area, SCENARIOS[name].name) is not None
    )
    return {version: found[version] for version in RECORDED if found[version]}


def counts_of(rows: tuple[Row, ...]) -> dict[str, object]:
    """Return the contents that scenarios.json must have."""
    by_row: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        counts = counted(scenarios_of(row))
        if counts:
            by_row.setdefault(row.area, {})[row.name] = counts
    areas = sorted({each.area for each in SCENARIOS.values()})
    by_area = {area: counted({each.id for each in SCENARIOS.values() if each.area == area}) for area in areas}
    return {"rows": by_row, "areas": by_area}
