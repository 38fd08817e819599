"""Runs in forks: one that is interrupted does not answer for the next."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.forked_runs import Runner

HANGING = """
import os
import signal


def test_it():
    os.kill({process}, signal.SIGUSR1)
    while True:
        pass
"""


@pytest.fixture
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


@pytest.fixture
def _interrupted_by_signal() -> Iterator[None]:
    """Let a signal do what the time limit of a test does."""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("_interrupted_by_signal")
def test_a_run_after_one_that_timed_out_has_its_own_status(runner: Runner, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "test_hanging.py").write_text(HANGING.format(process=os.getpid()), encoding="utf-8")
    (folder / "test_failing.py").write_text("def test_it():\n    assert False\n", encoding="utf-8")
    (folder / "test_passing.py").write_text("def test_it():\n    pass\n", encoding="utf-8")

    with pytest.raises(TimeoutError):
        runner.run(folder, ["test_hanging.py"])

    statuses = [runner.run(folder, [f"test_{name}.py"])[0] for name in ("failing", "passing")]
    assert statuses == [pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.OK]
