"""The commands `leveret pipeline flaky`, `causes` and `branch`."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from leveret.cli import main
from leveret.trace.rows import body_hash
from tests.pipeline.traces import Line, header, lives, write


class Suite:
    """Traces of a suite, and the commands on their warehouse."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self._runs = 0

    def add(self, lines: Sequence[Line], *, worker: str = "gw0", **about: str) -> None:
        """Add a run of its own commit."""
        number, self._runs = self._runs, self._runs + 1
        told = {"commit": f"commit-{number:03}", "started": f"2026-05-{1 + number // 24:02}T{number % 24:02}:00:00Z"}
        lines = [{**line, "seq": seq, "ts": seq * 10} for seq, line in enumerate(lines, start=1)]
        write(
            self.folder / "traces" / f"{number:03}.jsonl", [header(f"run-{number:03}", worker, **told, **about), *lines]
        )

    def ask(self, *question: str) -> tuple[int, list[str]]:
        warehouse = ["-w", str(self.folder / "warehouse")]
        assert main(["pipeline", "ingest", str(self.folder / "traces"), *warehouse]) == 0
        self._capsys.readouterr()
        return main(["pipeline", *question, *warehouse]), self._capsys.readouterr().out.splitlines()


@pytest.fixture
def suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Suite:
    return Suite(tmp_path, capsys)


def ended(lines: Sequence[Line], outcome: str, **about: object) -> list[Line]:
    """Return the events of a test that ends with this outcome."""
    attrs = json.dumps({"outcome": outcome, "duration": 0.1, **about})
    return [{**line, "attrs": attrs} if line["kind"] == "test_end" else line for line in lines]


def refused(code: int) -> Line:
    return {"kind": "refused", "test": "test_it", "vhost": "/", "conn": 1, "attrs": json.dumps({"code": code})}


def page(folder: Path, name: str, sentence: str, queue: str) -> dict[str, str]:
    """Write the page of a failed test with its JSON, and return what the trace says of it."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.html").write_text(name)
    causes = [{"sentence": sentence, "kind": "unacked_at_end", "names": {"queue": queue}}]
    (folder / f"{name}.json").write_text(json.dumps({"format": 1, "causes": causes}))
    return {"page": f"{name}.html", "page_hash": body_hash(name.encode()) or ""}


def test_a_flaky_test_is_said_with_its_rate_its_commit_and_what_its_failures_share(suite: Suite) -> None:
    for number in range(40):
        is_bad = number >= 20 and number % 2 == 0
        about = (
            page(suite.folder / "traces", f"p{number}", f"message {number} was never acked", "orders") if is_bad else {}
        )
        lines = ended(lives(3), "failed" if is_bad else "passed", **about)
        suite.add([*lives(1, test="test_other"), *lines] if is_bad else lines, worker=f"gw{number % 3}")

    code, said = suite.ask("flaky")

    assert (code, said) == (
        0,
        [
            "test_it fails in 10 of 20 runs since commit commit-020, and in 0 of 20 before",
            "  right after test_other: 10 of 10 failures, and 0 of 10 passes",
            "  in 10 of 10 failures: message 20 was never acked",
        ],
    )


@pytest.mark.parametrize("times", [1, 2])
def test_a_test_that_was_broken_and_mended_is_not_flaky(suite: Suite, times: int) -> None:
    for outcome in (["passed"] * 8 + ["failed"] * 8) * times + ["passed"] * 8:
        suite.add(ended(lives(1), outcome))

    assert suite.ask("flaky") == (0, ["no test passes and fails in turn"])


def test_two_failures_with_a_pass_between_are_flaky(suite: Suite) -> None:
    for outcome in ("passed", "failed", "passed", "failed"):
        suite.add(ended(lives(1), outcome))

    assert suite.ask("flaky") == (0, ["test_it fails in 2 of 4 runs"])


def test_what_flaky_runs_do_not_share_is_not_said(suite: Suite) -> None:
    dice = random.Random(3)
    for _ in range(40):
        suite.add(
            ended(lives(1), dice.choice(("passed", "failed"))),
            worker=dice.choice(("gw0", "gw1")),
            python="3.13",
            branch="main",
        )

    _, said = suite.ask("flaky")

    assert said == ["test_it fails in 24 of 40 runs"]


def test_a_test_that_runs_first_on_its_worker_and_is_retried_comes_right_after_none(suite: Suite) -> None:
    for number in range(40):
        is_bad = number % 2 == 0
        attempts = [ended(lives(1), "failed")] * 2 if is_bad else [ended(lives(1), "passed")]
        suite.add([line for lines in [*attempts, lives(1, test="test_other")] for line in lines])

    _, said = suite.ask("flaky")

    assert said == ["test_it fails in 20 of 40 runs"]


def test_failed_tests_of_one_cause_are_one_line(suite: Suite) -> None:
    traces = suite.folder / "traces"
    lines: list[Line] = []
    for number in range(8):
        about = page(traces, f"p{number}", f"message {number} was never acked", "jobs")
        lines += ended(lives(1, test=f"test_{number}"), "failed", **about)
    about = page(traces, "other", "message 1 was never acked", "orders")
    lines += ended(lives(1, test="test_other"), "failed", **about)
    lines += [refused(404), *ended(lives(1), "failed", error="Boom\nChannelClosed: no queue 'x'")]
    lines += ended(lives(1, test="test_plain"), "error", error="ValueError: 123456")
    suite.add([*lines, *lives(1, test="test_good")])

    assert suite.ask("causes") == (
        0,
        [
            "8 tests in 1 run: message 0 was never acked",
            "  test_0, test_1, test_2, test_3, test_4 and 3 others",
            "1 test in 1 run: ValueError: *",
            "  test_plain",
            "1 test in 1 run: message 1 was never acked",
            "  test_other",
            "1 test in 1 run: refused with code 404: ChannelClosed: no queue 'x'",
            "  test_it",
        ],
    )


def test_a_run_without_failures_has_no_causes(suite: Suite) -> None:
    suite.add(lives(1))

    assert suite.ask("causes") == (0, ["no test failed in run run-000"])


def fill(suite: Suite, branch_messages: int, *, runs: int = 4) -> None:
    """Add thirty runs of main, of which one test is noisy, and runs of a branch, in turn."""
    dice = random.Random(5)
    for number in range(30 + runs):
        branch = "feature" if number >= 30 else "main"
        noisy = lives(dice.randrange(1, 9), test="test_noisy", queue="noise")
        suite.add([*lives(branch_messages if branch == "feature" else 3), *noisy], branch=branch)


def test_a_branch_differs_in_what_it_changes_and_not_in_what_is_noise_on_main(suite: Suite) -> None:
    fill(suite, 5)

    code, said = suite.ask("branch", "feature")

    assert code == 1
    assert said == ["messages published to orders rose from 3 to 5 in test_it"]


@pytest.mark.parametrize(("runs_of_main", "code"), [(2, 2), (3, 0)])
def test_a_branch_needs_three_runs_of_its_base(suite: Suite, runs_of_main: int, code: int) -> None:
    for branch in ["main"] * runs_of_main + ["feature"]:
        suite.add(ended(lives(3), "passed"), branch=branch)

    assert suite.ask("branch", "feature")[0] == code


def test_a_branch_like_its_base_differs_in_nothing(suite: Suite) -> None:
    fill(suite, 3)

    assert suite.ask("branch", "feature") == (0, ["nothing differs on feature from main, apart from noise"])


def test_a_test_that_fails_more_often_on_a_branch_is_said_with_both_rates(suite: Suite) -> None:
    for number in range(40):
        outcome = "failed" if number in (3, 9) or number in (31, 34, 36, 38) else "passed"
        suite.add(ended(lives(1), outcome), branch="main" if number < 30 else "feature")

    assert suite.ask("branch", "feature") == (0, ["nothing differs on feature from main, apart from noise"])

    for number in range(12):
        suite.add(ended(lives(1), "failed" if number % 2 else "passed"), branch="feature")

    assert suite.ask("branch", "feature") == (1, ["test_it fails in 10 of 22 runs, and in 2 of 30 on main"])


@pytest.mark.parametrize("messages", [3, 5])
def test_a_branch_that_is_like_its_base_before_or_after_a_change_differs_in_nothing(
    suite: Suite, messages: int
) -> None:
    for number in range(30):
        suite.add(lives(3 if number < 20 else 5), branch="main")
    for _ in range(6):
        suite.add(lives(messages), branch="feature")

    assert suite.ask("branch", "feature") == (0, ["nothing differs on feature from main, apart from noise"])


def test_a_branch_that_differs_from_its_base_before_and_after_a_change_is_said(suite: Suite) -> None:
    for number in range(30):
        suite.add(lives(3 if number < 20 else 5), branch="main")
    for _ in range(6):
        suite.add(lives(8), branch="feature")

    assert suite.ask("branch", "feature") == (1, ["messages published to orders rose from 5 to 8 in test_it"])


def test_a_branch_without_runs_is_refused(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    fill(suite, 3)

    assert suite.ask("branch", "featrue")[0] == 2
    assert suite.ask("branch", "feature", "--against", "nowhere")[0] == 2
