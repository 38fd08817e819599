"""Every table and rule is documented, explained and computed a second time. Without Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leveret.pipeline.kernel.rules import RULES
from leveret.pipeline.kernel.schema import EVENTS, TABLES
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.kernel.tables import tables_of
from leveret.pipeline.report import words
from tests.pipeline import random_traces

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/pipeline-tables.md").read_text(encoding="utf-8")
PLAIN = (ROOT / "tests/pipeline/plain.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*TABLES, *ACROSS])
def test_every_table_is_documented_and_computed_plainly(name: str) -> None:
    assert re.search(rf"^## (?:.*, )?{name}(?:,|$)", PAGE, re.MULTILINE), (
        f"docs/reference/pipeline-tables.md has no section {name!r}"
    )
    assert f'"{name}"' in PLAIN, f"tests/pipeline/plain.py does not compute {name!r}"


def test_every_table_of_a_run_is_computed() -> None:
    computed = tables_of(EVENTS.empty_table())

    assert list(computed) == list(TABLES), "tables_of in src/leveret/pipeline/kernel/tables.py computes other tables"


def test_no_table_is_computed_plainly_that_the_pipeline_does_not_have() -> None:
    computed = re.findall(r'^    found\["([a-z]\w*)"\] = ', PLAIN, re.MULTILINE)

    missing = [name for name in computed if name not in (*TABLES, *ACROSS)]

    assert missing == [], "TABLES in src/leveret/pipeline/kernel/schema.py does not have these"


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_every_rule_is_documented_explained_computed_plainly_and_planted(name: str) -> None:
    assert re.search(rf"^\| {name}(?: \*)? \|", PAGE, re.MULTILINE), (
        f"docs/reference/pipeline-tables.md has no line for {name!r}"
    )
    assert name in words.RULES, f"src/leveret/pipeline/report/words.py has no words for {name!r}"
    assert f'"{name}"' in PLAIN, f"tests/pipeline/plain.py does not look for {name!r}"
    assert name in random_traces.FAULTS, f"tests/pipeline/random_traces.py does not plant {name!r}"


def test_no_rule_is_planted_that_is_not_there() -> None:
    missing = [name for name in random_traces.FAULTS if name not in {rule.name for rule in RULES}]

    assert missing == [], "RULES in src/leveret/pipeline/kernel/rules.py does not have these"
