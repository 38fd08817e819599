"""The page of reported cases names every test here, and each test it names exists and is named after its report."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (.+?) \| .+? \| \[`(\w+)`\]\(\.\./\.\./(tests/\S+?\.py)\) \|$",
    (ROOT / "docs/reference/reported-cases.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def names_of_tests(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [function.name for function in functions if function.name.startswith("test_")]


def test_every_test_that_the_page_names_is_there():
    assert len(ROWS) > 40
    assert [(path, name) for _, name, path in ROWS if name not in names_of_tests(ROOT / path)] == []


def test_every_reported_case_here_stands_on_the_page():
    here = [path for path in sorted(Path(__file__).parent.glob("test_*.py")) if path.name != Path(__file__).name]
    named = {name for _, name, _ in ROWS}

    assert [name for path in here for name in names_of_tests(path) if name not in named] == []


def test_a_test_is_named_for_the_first_of_its_reports():
    numbered = [(report, name) for report, name, path in ROWS if path.startswith("tests/users/") and "#" in report]
    firsts = [(re.search(r"#(\d+)", report), name) for report, name in numbered]

    assert [name for number, name in firsts if number and f"_{number.group(1)}_" not in name] == []
