"""A process that runs the test again and again, as the doctor asks through a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_leveret import brokers
from pytest_leveret.flaky.play import Order, Outcome, Play, failed_at
from pytest_leveret.trials.processes import serve_session

if TYPE_CHECKING:
    from collections.abc import Generator
    from multiprocessing.connection import Connection

    from leveret import Broker


class Job(NamedTuple):
    """One run to do."""

    seed: int
    order: Order | None = None
    # Where to write the page of the run, if anywhere.
    page: str | None = None


class Runner:
    """The part of the plugin that plays single runs of a test, in a worker or to replay a seed."""

    def __init__(self) -> None:
        self._job = Job(0)
        self._play: Play | None = None
        self._outcome = Outcome(0, "passed")

    def prepare(self, job: Job) -> None:
        """Say what the next run does."""
        self._job = job

    def watch(self, broker: Broker) -> None:
        """Take a broker that has started."""
        if self._play is not None:
            self._play.watch(broker)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin a run."""
        play = self._play = Play(self._job.seed, self._job.order)
        self._outcome = Outcome(self._job.seed, "passed", play.steps)
        for broker in brokers.shared_brokers(item):
            play.watch(broker)
        play.begin()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Item) -> Generator[None, object, object]:
        """Note the lines of the test."""
        play = self._play
        if play is None:
            return (yield)
        play.trace(pyfuncitem)
        try:
            return (yield)
        finally:
            play.end_trace()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note how the run went."""
        report = yield
        outcome = self._outcome
        how = _outcome_of(report, call)
        if how == "failed" and outcome.outcome != "failed":
            outcome.outcome = "failed"
            error = None if call.excinfo is None else call.excinfo.value
            if report.when == "call":
                outcome.line, outcome.is_in_coroutine = failed_at(item, error)
            outcome.error = "" if call.excinfo is None else call.excinfo.exconly().strip()
        elif how == "skipped" and outcome.outcome == "passed":
            outcome.outcome = "skipped"
        if report.when == "call" and self._job.page is not None:
            from pytest_leveret.reports.pages import story_of_test

            story = story_of_test(item, report, call)
            if story is not None:
                from leveret.page.formats.html import save

                save(story, self._job.page)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """End the waits of a run, so that fixtures end as they always do."""
        play, self._play = self._play, None
        if play is not None:
            self._outcome.steps = list(play.steps)
            self._outcome.expired = play.expired()
            play.end()

    def run(self, item: pytest.Item, job: Job) -> Outcome:
        """Run the test once and return what became of it."""
        self.prepare(job)
        brokers.run_again(item)
        return self._outcome

    def serve(self, session: pytest.Session, connection: Connection) -> None:
        """Run the test of a session as the doctor asks, until it hangs up."""
        item = session.items[0]

        serve_session(session, connection, lambda job: (self.run(item, job), False))


def _outcome_of(report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    """Return how a phase of a run went, whether or not the test is marked xfail."""
    if report.failed and report.when == "call" and call.excinfo is None and "xfail" in report.keywords:
        # It passed, and the mark is strict.
        return "passed"
    if report.skipped and hasattr(report, "wasxfail"):
        error = None if call.excinfo is None else call.excinfo.value
        is_not_run = report.when == "setup" and isinstance(error, pytest.xfail.Exception)
        return "skipped" if is_not_run else "failed"
    return report.outcome
