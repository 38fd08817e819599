"""leveret answers programs of the random machine as the real server did when they were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import recordings
from .campaign import KINDS, explain
from .exclusions import EXCLUSIONS
from .generator import generate
from .recordings import Recording
from .shrink import shrink
from .steps import Step, text

CASES = [
    pytest.param(version, recording, id=f"{version}-{recording.kind}-{recording.seed}")
    for version in recordings.versions()
    for recording in recordings.load(version)
]


@pytest.mark.parametrize(("version", "recording"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_leveret_answers_a_recorded_program_as_the_server_did(version: str, recording: Recording) -> None:
    outcome = KINDS[recording.kind].replay(recording.program, recording.answers, version)

    if outcome.difference is not None:
        shown = f"seed {recording.seed}\n{text(recording.program)}\n{explain(outcome.difference)}"
        pytest.fail(shown, pytrace=False)
    assert outcome.answers == recording.answers


def test_a_seed_is_a_program() -> None:
    assert generate(7, 40) == generate(7, 40)
    assert generate(7, 40) != generate(8, 40)


def test_a_program_survives_being_written_down() -> None:
    program = generate(7, 40)

    assert tuple(Step.from_json(step.to_json()) for step in program) == program


def test_shrinking_keeps_exactly_the_needed_steps() -> None:
    program = tuple(Step("basic.publish", fields={"body": str(number)}) for number in range(40))
    needed = [program[3], program[11], program[20]]

    smallest = shrink(program, lambda candidate: all(step in candidate for step in needed))

    assert [step for step in program if step in needed] == list(smallest)


def test_the_page_shows_every_exclusion() -> None:
    page = (Path(__file__).parents[2] / "docs/explanation/lockstep.md").read_text(encoding="utf-8")

    missing = [what for what, why in EXCLUSIONS if f"| {what} | {why} |" not in page]

    assert missing == []
