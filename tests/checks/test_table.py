"""The table of checks and what is written about it."""

from __future__ import annotations

import re
from pathlib import Path

from leveret.observe.checks.table import CHECKS

DOCS = Path(__file__).parents[2] / "docs/checks.md"


def test_every_check_stands_in_the_documentation_with_its_default():
    rows = re.findall(r"^\| `(\w+)` \| (error|warning|off) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)

    assert rows == [(check.name, check.level) for check in CHECKS.values()]


def test_every_check_is_tested():
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))

    assert [name for name in CHECKS if f'["{name}"]' not in tests] == []


def test_no_check_fails_a_test_unless_asked_to_but_of_what_the_test_has_said_itself():
    assert [check.name for check in CHECKS.values() if check.level == "error"] == ["unused_fault"]
