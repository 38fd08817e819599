"""What leveret says of tests of users that fail: of failing programs the cause, of right ones nothing.

`programs/failing` has tests that fail because of a bug of their program, each below the sentence that it must get; `*`
stands for what differs from run to run. A test without such a line gets none. `programs/right` has tests of right
programs that fail for another reason: a wrong expectation, or code that has nothing to do with messages. No line of the
code marks a bug. The files are no modules: they sleep, as tests of users do.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
_MARK = "# says: "
_TESTS = re.compile(r"(?:(?:^    )?def |async def )(test_\w+)\(")


# The sentences about each test that failed, by its kind and its name, each with what the events do not show of it.
Said = dict[str, dict[str, list[dict[str, object]]]]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """Run all programs in one process."""
    folder = tmp_path_factory.mktemp("programs")
    for file in PROGRAMS.glob("*/*.txt"):
        shutil.copy(file, folder / f"test_{file.parent.name}_{file.stem}.py")
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 60\nasyncio_mode = auto\n", encoding="utf-8")
    path = folder / "said.jsonl"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "tests.causes.witness"]
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:pytest_nameko"],
        cwd=folder,
        env={**os.environ, "CAUSES_WITNESS": str(path), "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    found: Said = {"failing": {}, "right": {}}
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        file, _, name = line["test"].partition("::")
        found[file.split("_")[1]][name.rpartition("::")[2]] = line["said"]
    return found


def programs_of(kind: str) -> Iterator[tuple[str, str | None]]:
    """Yield each test of a kind, and the sentence that it must get."""
    for file in sorted((PROGRAMS / kind).glob("*.txt")):
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


@pytest.mark.parametrize("kind", ["failing", "right"])
def test_each_program_fails(said: Said, kind: str) -> None:
    assert {name for name, _ in programs_of(kind)} - set(said[kind]) == set()


def test_failing_programs_get_their_cause_and_no_false_sentence(said: Said) -> None:
    missing = [
        f"{name}: {sentence}\n    said: {[one['sentence'] for one in said['failing'].get(name, [])]}"
        for name, sentence in programs_of("failing")
        if not is_said(sentence, said["failing"].get(name, []))
    ]
    false = [f"{name}: {one}" for name, all_said in said["failing"].items() for one in all_said if one["wrong"]]
    assert "\n".join([*missing, *false]) == ""


def test_right_programs_are_not_blamed(said: Said) -> None:
    assert {name: all_said for name, all_said in said["right"].items() if all_said} == {}
