"""The doctor: `--leveret-flaky` runs one test many times, in processes side by side, and reports why it fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from leveret.trials.pool import Pool
from pytest_leveret.flaky.play import Order, Outcome, Play
from pytest_leveret.flaky.report import FlakyDiagnosis, page_of, statement_of, text_of_diagnosis
from pytest_leveret.flaky.search import search
from pytest_leveret.reports.report import show_progress
from pytest_leveret.trials.processes import Seldom, pool, refuse_broken, serve_session
from pytest_leveret.trials.runner import run, taking_part

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from _pytest.terminal import TerminalReporter

# How long the doctor runs without a line of progress.
_PROGRESS_S: Final = 5.0


def prepare(config: pytest.Config, count: int | None, seed: int | None) -> None:
    """Let this session be a doctor's, or the replay of a seed."""
    if count is not None:
        config.pluginmanager.register(Doctor(config, count), "leveret-flaky-doctor")
    else:
        config.pluginmanager.register(Replay(seed or 0), "leveret-flaky-replay")


def serve(session: pytest.Session, connection: Connection) -> None:
    """Run the test of a session as the doctor asks, until it hangs up."""

    def play(job: Job) -> tuple[Outcome, bool]:
        trial = Play(*job)
        run(session.items[0], trial)
        return trial.outcome, False

    serve_session(session, connection, play)


class Job(NamedTuple):
    """One run to do."""

    seed: int
    order: Order | None = None
    # Where to write the page of the run, if anywhere.
    page: str | None = None


_Workers = Pool[Job, Outcome]


class Replay:
    """The part of the plugin that runs each test in the order of one seed."""

    def __init__(self, seed: int) -> None:
        self._seed: Final = seed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let pytest run the test."""
        with taking_part(item, Play(self._seed)):
            return (yield)


class Doctor:
    """The part of the plugin that runs one test many times instead of the session's tests."""

    def __init__(self, config: pytest.Config, count: int) -> None:
        self._config: Final = config
        self._count: Final = count
        self.diagnosis: FlakyDiagnosis | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Examine the test, and fail the session if it is flaky."""
        refuse_broken(session)
        if len(session.items) != 1:
            raise pytest.UsageError(
                f"--leveret-flaky examines one test, and {len(session.items)} are selected; name it, as in "
                "pytest --leveret-flaky 'tests/test_shop.py::test_ship'"
            )
        item = session.items[0]
        with pool(self._config, serve.__module__, asked_by="--leveret-flaky") as workers:
            report = partial(show_progress, self._config.pluginmanager)
            diagnosis = self.diagnosis = examine(item, workers, self._count, report)
            if diagnosis.finding is not None:
                diagnosis.page = self._write_pages(diagnosis, workers)
        session.testsfailed += bool(diagnosis.failed)
        return True

    def _write_pages(self, diagnosis: FlakyDiagnosis, workers: _Workers) -> str | None:
        cache = getattr(self._config, "cache", None)
        folder = Path(mkdtemp(prefix="leveret-flaky-") if cache is None else cache.mkdir("leveret-flaky"))
        failed, passed = diagnosis.examples
        if passed is None:
            return None
        names = "failed.html", "passed.html"
        jobs = [
            Job(run.seed, order, str(folder / name)) for (run, order), name in zip((failed, passed), names, strict=True)
        ]
        outcomes = run_all(workers, jobs)
        path = folder / "flaky.html"
        path.write_text(page_of(diagnosis, outcomes, names), encoding="utf-8", newline="\n")
        return path.as_uri()

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show what was found."""
        if self.diagnosis is not None:
            # pytest counts what it has run by itself, and would end in "no tests ran".
            terminalreporter.stats.setdefault("examined", []).append(self.diagnosis)
            terminalreporter.section("flaky")
            for line in text_of_diagnosis(self.diagnosis):
                terminalreporter.write_line(line)


def examine(item: pytest.Item, workers: _Workers, count: int, report: Callable[[str], None]) -> FlakyDiagnosis:
    """Run a test many times, and search for the cause if some runs fail and others pass."""
    seldom = Seldom(report, _PROGRESS_S)

    def note(done: Collection[Outcome]) -> None:
        seldom(f"{len(done)} of {count} runs, {sum(run.has_failed for run in done)} failed")

    def force(order: Order, times: int) -> list[Outcome]:
        seldom(f"forced now: {statement_of(order)}")
        return run_all(workers, [Job(0, order)] * times)

    runs = run_all(workers, [Job(seed) for seed in range(count)], note)
    diagnosis = FlakyDiagnosis(item.nodeid, str(item.path), runs)
    if diagnosis.failed and diagnosis.passed and not diagnosis.leaves_something:
        report(f"{count} of {count} runs, {len(diagnosis.failed)} failed; now leveret forces orders")
        diagnosis.finding = search(runs, force)
    return diagnosis


def run_all(
    workers: _Workers, jobs: Sequence[Job], note: Callable[[Collection[Outcome]], None] = lambda _: None
) -> list[Outcome]:
    """Do jobs, and return their outcomes in the same order. `note` gets the outcomes so far, after each job."""
    outcomes: list[Outcome] = []
    for done in workers.each(jobs):
        error = f"its process ended or hung: {done.error}"
        outcomes.append(done.outcome or Outcome(done.job.seed, "failed", error=error))
        outcomes[-1].turn = done.turn
        note(outcomes)
    return outcomes
