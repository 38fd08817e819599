"""What leveret says of tests of users that fail: of failing programs the cause, of right ones nothing.

`programs/failing` has tests that fail because of a bug of their program, each below the sentence that it must get; `*`
stands for what differs from run to run. A test without such a line gets none. `programs/right` has tests of right
programs that fail for another reason: a wrong expectation, or code that has nothing to do with messages. No line of the
code marks a bug. The files are no modules: they sleep, as tests of users do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
_MARK = "# says: "
_TESTS = re.compile(r"(?:(?:^    )?def |async def )(test_\w+)\(")


class Said(dict[str, list[dict[str, object]]]):
    """The sentences about each test of a run, by its name, each with what the events do not show of it."""


def said_of(kind: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Said:
    """Run all programs of a kind in one process."""
    for file in sorted((PROGRAMS / kind).glob("*.txt")):
        pytester.makepyfile(**{f"test_{file.stem}": file.read_text(encoding="utf-8")})
    pytester.makeini("[pytest]\ntimeout = 60\nasyncio_mode = auto\n")
    path = pytester.path / "said.jsonl"
    monkeypatch.setenv("CAUSES_WITNESS", str(path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.runpytest_subprocess(
        "-q", "--tb=no", "-p", "tests.causes.witness", "-p", "no:cacheprovider", "-p", "no:xdist"
    )
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return Said({line["test"].rpartition("::")[2]: line["said"] for line in lines})


def expected() -> Iterator[tuple[str, str | None]]:
    """Yield each failing test, and the sentence that it must get."""
    for file in sorted((PROGRAMS / "failing").glob("*.txt")):
        sentence = None
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith(_MARK):
                sentence = line.removeprefix(_MARK)
            elif found := _TESTS.match(line):
                yield found[1], sentence
                sentence = None


def is_said(sentence: str | None, said: list[dict[str, object]]) -> bool:
    """Return whether a sentence is among those about a test; None is that nothing is said."""
    if sentence is None:
        return not said
    pattern = ".*".join(map(re.escape, sentence.split("*")))
    return any(re.fullmatch(pattern, str(one["sentence"])) for one in said)


def test_failing_programs_get_their_cause_and_no_false_sentence(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = said_of("failing", pytester, monkeypatch)

    missing = [
        f"{name}: {sentence}\n    said: {[one['sentence'] for one in said.get(name, [])]}"
        for name, sentence in expected()
        if not is_said(sentence, said.get(name, []))
    ]
    false = [f"{name}: {one}" for name, all_said in said.items() for one in all_said if one["wrong"]]
    assert "\n".join([*missing, *false]) == ""


def test_right_programs_are_not_blamed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    said = said_of("right", pytester, monkeypatch)

    assert len(said) > 100, "the programs did not fail"
    assert {name: all_said for name, all_said in said.items() if all_said} == {}
