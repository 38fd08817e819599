"""The table of features is complete, names existing proofs, and claims no more than was recorded."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from leveret.broker import PLUGINS
from leveret.core.compat import PERMITTED
from leveret.core.model import unsupported
from leveret.core.model.exchanges import EXCHANGE_TYPES
from leveret.core.model.operators import policy_keys
from leveret.core.model.queues.arguments import QUEUE_ARGUMENTS
from leveret.core.model.queues.queue_types import CONSUMER_ARGUMENTS, QUEUE_TYPES
from leveret.core.protocol.auth import MECHANISMS
from leveret.core.wire.methods import METHODS as WIRE_METHODS
from leveret.core.wire.methods import REFUSED_NAMES
from tests.features.__main__ import PAGE
from tests.features.printing import page
from tests.features.table import (
    ABSENT,
    DOCUMENTED,
    NOT_THERE,
    PROVEN,
    RECORDED,
    SCENARIOS,
    VERSIONS,
    Row,
    is_test,
    matching,
    rows,
)

ROOT = Path(__file__).parents[2]
METHODS = [*(method.NAME for method in WIRE_METHODS.values()), *REFUSED_NAMES.values()]

HAS_ROWS: dict[str, Iterable[str]] = {
    "Exchange types": (*EXCHANGE_TYPES, *unsupported.EXCHANGE_TYPES),
    "Queue types": QUEUE_TYPES,
    "Queue arguments": (*QUEUE_ARGUMENTS, *unsupported.QUEUE_ARGUMENTS),
    "Consumer arguments": CONSUMER_ARGUMENTS,
    "Policy keys": policy_keys._KEYS,
    "Login": (*MECHANISMS, "EXTERNAL"),
    "Deprecated features": PERMITTED,
}


@pytest.mark.parametrize("area", HAS_ROWS)
def test_every_entry_of_leverets_own_tables_has_a_row(area: str) -> None:
    found = {row.name for row in rows() if row.area == area}

    missing = sorted(set(HAS_ROWS[area]) - found)

    assert missing == [], f"tools/features.toml has no row for these in {area!r}"


def test_every_method_of_the_protocol_has_a_row() -> None:
    found = {row.name for row in rows() if row.area == "Methods"}

    # An answer stands with what it answers.
    missing = [name for name in METHODS if name not in found and name.removesuffix("-ok") not in found]

    assert missing == [], "tools/features.toml has no row for these in 'Methods'"


def test_every_plugin_that_can_be_enabled_has_a_row() -> None:
    told = " ".join(row.remark for row in rows())

    assert [plugin for plugin in PLUGINS if plugin not in told] == []


def test_every_scenario_is_proof_of_something() -> None:
    proofs = {name for row in rows() for name in row.scenarios()}

    assert sorted(set(SCENARIOS) - proofs) == []


def test_every_proof_exists() -> None:
    assert [(row.name, proof) for row in rows() for proof in row.proof if not is_there(proof)] == []


def test_every_supported_feature_has_a_proof() -> None:
    assert [row.name for row in rows() if not row.proof and not row.instead] == []


def test_a_feature_has_one_row_in_its_area() -> None:
    names = [(row.area, row.name) for row in rows()]

    assert len(names) == len(set(names))


def test_only_known_versions_are_named() -> None:
    assert [(row.name, version) for row in rows() for version in row.absent if version not in VERSIONS] == []


def test_no_scenario_is_recorded_for_an_absent_feature() -> None:
    odd = [(row.name, version) for row in rows() for version in VERSIONS if is_odd(row, version)]

    assert odd == []


def test_the_page_is_that_of_the_table_and_the_transcripts() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.features writes docs/reference/features.md"


def test_an_absent_a_missing_a_documented_and_a_proven_feature_are_told_apart() -> None:
    found = {row.name: row for row in rows() if row.area == "Exchange types"}

    assert found["x-modulus-hash"].state("4.0") == ABSENT
    assert found["x-jms-topic"].state("4.3") == NOT_THERE
    assert found["topic"].state("4.2") == DOCUMENTED
    assert found["topic"].state("4.3") == PROVEN


def test_the_recorded_versions_are_those_with_transcripts() -> None:
    assert {version for scenario in SCENARIOS.values() for version in scenario.versions} == set(RECORDED)


def is_odd(row: Row, version: str) -> bool:
    return row.state(version) == ABSENT and row.count(version) > 0


def is_there(proof: str) -> bool:
    if not is_test(proof):
        return bool(matching(proof))
    path, _, name = proof.partition("::")
    file = ROOT / path
    return file.exists() and (not name or name in functions_of(file))


@cache
def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
