"""The first example of each page is complete and runs, on a real broker; the messages a page quotes are the code's."""

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
from tests.house.repository import SourceFile

ROOT = Path(__file__).parents[2]
# Pages whose first example does not run here, and why.
NOT_RUN = {
    "reference/pipeline-tables.md": "needs Spark; tests/pipeline reads the tables",
    "how-to/pipeline.md": "needs Spark; tests/pipeline reads the tables",
    "how-to/recording.md": "shows a keyword only",
    "how-to/report.md": "needs Spark; tests/pipeline makes reports",
    "explanation/semantics.md": "is a scenario, which tests/semantics runs",
    "how-to/spark-amqp.md": "needs Spark; tests/spark runs the format",
    "how-to/warehouse.md": "needs a warehouse; tests/pipeline/test_sql.py queries one",
}
# Pages that show a bug being found: what their example raises.
RAISED = {"how-to/exploring.md": ExplorationFailedError, "how-to/stateful.md": AssertionError}
# Messages that a page quotes. They must be in the code in the same words.
QUOTED = {
    "reference/checks.md": (
        "lost: published without mandatory and routed to no queue",
        " no binding of ",
        "if you expect this: ",
    ),
    "how-to/exploring.md": (
        "Unlike the run without a fault:",
        "is lost after the broker has handled this; no answer arrives",
        " was never ",
        "How the scenario failed:",
        "Replay it:",
    ),
    "reference/faults.md": ("not in confirm mode", "held back by the fault"),
    "reference/pytest.md": (
        "leveret: upgrade report",
        "passes on both, but: ",
        "passes only on ",
        "errors sent to clients:",
        "Two ways out:",
        "declare the queue with durable=True (or exclusive=True)",
    ),
}
QUICK = settings(phases=(Phase.generate,), stateful_step_count=8, derandomize=True, database=None, deadline=None)
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLES = {
    path.relative_to(ROOT / "docs").as_posix(): blocks[0]
    for path in sorted((ROOT / "docs").rglob("*.md"))
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


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, texts in QUOTED.items() for text in texts])
def test_a_message_quoted_on_a_page_is_one_of_the_code(page: str, text: str, source_files: list[SourceFile]) -> None:
    assert text in (ROOT / "docs" / page).read_text(encoding="utf-8").replace("\n", " ")
    assert any(text in file.text for file in source_files), f"docs/{page} quotes {text!r}, which no source file has"


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
