"""The table of checks and its documentation."""

from __future__ import annotations

import re
from pathlib import Path

from leveret.observe.checks.table import CHECKS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs/reference/checks.md"


def test_every_check_is_documented_with_its_default():
    rows = re.findall(r"^\| `(\w+)` \| (error|warning|off) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)

    assert rows == [(check.name, check.level) for check in CHECKS.values()], (
        "docs/reference/checks.md and src/leveret/observe/checks/table.py list different checks, levels or orders"
    )


def test_every_check_is_tested():
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))

    assert [f"no file of tests/checks looks at {name!r}" for name in CHECKS if f'["{name}"]' not in tests] == []


def test_every_check_is_found_by_something():
    names = (
        "trace_checks",
        "trace_context",
        "leftovers",
        "unused_faults",
        "never_awaited",
        "no_client",
        "../../workers/worker",
    )
    finders = [ROOT / f"src/leveret/observe/checks/{name}.py" for name in names]
    texts = "".join(path.read_text(encoding="utf-8") for path in finders)

    missing = [name for name in CHECKS if f'"{name}"' not in texts]

    assert [f"nothing finds {name!r}: src/leveret/observe/checks/trace_checks.py should" for name in missing] == []


def test_only_what_the_test_itself_forgot_is_an_error_by_default():
    assert [check.name for check in CHECKS.values() if check.level == "error"] == [
        "unused_fault",
        "never_awaited",
        "lost_worker",
    ]
