"""The first example of each page is complete and runs, on a real broker."""

from __future__ import annotations

import inspect
import re
import unittest
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from leveret import ExplorationFailedError

ROOT = Path(__file__).parents[2]
# Pages whose first example does not run here, and why.
NOT_RUN = {
    "pipeline-tables.md": "needs Spark; tests/pipeline reads the tables",
    "pipeline.md": "needs Spark; tests/pipeline reads the tables",
    "recording.md": "shows a keyword only",
    "report.md": "needs Spark; tests/pipeline makes reports",
    "semantics.md": "is a scenario, which tests/semantics runs",
    "spark-amqp.md": "needs Spark; tests/spark runs the format",
}
# Pages that show a bug being found: what their example raises.
RAISED = {"exploring.md": ExplorationFailedError, "stateful.md": AssertionError}
QUICK = settings(phases=(Phase.generate,), stateful_step_count=8, derandomize=True, database=None, deadline=None)
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLES = {
    path.name: blocks[0]
    for path in sorted((ROOT / "docs").glob("*.md"))
    if (blocks := _PYTHON.findall(path.read_text(encoding="utf-8")))
}


def test_each_exemption_is_a_page_with_an_example() -> None:
    assert [page for page in (*NOT_RUN, *RAISED) if page not in EXAMPLES] == []


@pytest.mark.parametrize("page", [page for page in EXAMPLES if page not in NOT_RUN])
def test_the_first_example_of_a_page_runs(page: str, request: pytest.FixtureRequest) -> None:
    names: dict[str, Any] = {"__name__": "example"}

    exec(compile(EXAMPLES[page], f"docs/{page}", "exec"), names)

    calls = runs(names, request)
    assert calls or page not in RAISED
    for call in calls:
        with pytest.raises(RAISED[page]) if page in RAISED else nullcontext():
            call()


def runs(names: dict[str, Any], request: pytest.FixtureRequest) -> list[Callable[[], object]]:
    """Return a call for each test that an example defines, with the fixtures it names."""
    found: list[Callable[[], object]] = []
    for name, value in names.items():
        if inspect.isfunction(value) and name.startswith("test_"):
            fixtures = {fixture: request.getfixturevalue(fixture) for fixture in inspect.signature(value).parameters}
            found.append(partial(value, **fixtures))
        elif inspect.isclass(value) and issubclass(value, unittest.TestCase):
            # A machine for Hypothesis. Shrinking what it finds takes most of its time and is tested in tests/stateful.
            value.settings = QUICK  # type: ignore[attr-defined]
            found.append(value("runTest").debug)
    return found
