"""The cause of a planted bug stands first in the report of its test, in words, and nothing wrong beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.causes.bugs import BUGS, Bug
from tests.plugin.conftest import Run, no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]
TITLE = "leveret: what went wrong"


def said(result: pytest.RunResult) -> list[str]:
    """Return the sentences of the first section of the report."""
    sections = re.split(r"^-{2,} (.+?) -{2,}$", str(result.stdout), flags=re.M)
    titles = sections[1::2]
    assert TITLE in titles, result.stdout
    assert titles[0] == TITLE, "another section comes first"
    return sections[2].strip().splitlines()


@pytest.mark.parametrize("name", BUGS)
def test_the_cause_of_a_bug_comes_first_and_nothing_wrong_beside_it(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug: Bug = BUGS[name]
    monkeypatch.setenv("CAUSES_WITNESS", str(tmp_path / "said.jsonl"))

    result = run(bug.source, "-p", "pytest_timeout", "-p", "tests.causes.witness")

    result.assert_outcomes(failed=1)
    sentences = said(result)
    print(sentences)
    assert any(re.search(bug.cause, sentence) for sentence in sentences), sentences
    assert [one for one in sentences if not any(re.search(each, one) for each in (bug.cause, *bug.true))] == []
    assert len(sentences) <= 3
    (failure,) = map(json.loads, (tmp_path / "said.jsonl").read_text(encoding="utf-8").splitlines())
    assert [one for one in failure["said"] if one["wrong"]] == [], "the events do not show this"
