"""The part of the plugin that runs tests for a survey: in a fork of its process, or in a new pytest."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from pytest_leveret import brokers
from pytest_leveret.needs.effects import TEST, Fact
from pytest_leveret.needs.run import Job, Outcome, Run
from pytest_leveret.trials.processes import serve_session

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from leveret import Broker


class Runner:
    """The part of the plugin that runs tests in a worker."""

    def __init__(self) -> None:
        self._run: Run | None = None

    def watch(self, broker: Broker) -> None:
        """Take a broker that has started."""
        if self._run is not None:
            self._run.watch(broker)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Watch the brokers that run already."""
        if self._run is not None:
            for broker in brokers.shared_brokers(item):
                self._run.watch(broker)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note how the run went, until it is torn down."""
        report = yield
        if (
            self._run is not None
            and call.when != "teardown"
            and call.excinfo is not None
            and report.outcome == "failed"
        ):
            self._run.note_failure(call.excinfo.value)
        if self._run is not None and report.outcome == "skipped":
            self._run.outcome.is_skipped = True
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """Take the effects before fixtures end."""
        if self._run is not None:
            self._run.finish()

    def run(self, item: pytest.Item, job: Job, reply: Callable[[Outcome], None]) -> tuple[Outcome, bool] | None:
        """Do a job, and return its outcome and whether this process is spent; None if `reply` got it already."""
        outcome = Outcome()
        for turn in range(1 if job.expected is not None else 2):
            run = self._run = Run(item, job, outcome, reply)
            try:
                run.play()
            except KeyboardInterrupt:
                if not run.is_cut:
                    raise
            finally:
                self._run = None
            if run.is_cut:
                return None
            if turn and outcome.error:
                # It passes only once in a process, so each of its runs has one of its own.
                outcome.error = ""
                outcome.effects[-1].facts[Fact(TEST, "", value="the test fails")] += 1
                return outcome, True
            if job.is_alone or outcome.error:
                return outcome, True
        if job.expected is None:
            outcome.modules = [name for name in sys.modules if name.startswith("leveret.")]
            return outcome, False
        return outcome, job.expected.differs_from(outcome.effects[-1].facts)

    def serve(self, session: pytest.Session, connection: Connection) -> None:
        """Run the tests of a session as the other side of the connection asks, until it hangs up."""
        items = {item.nodeid: item for item in session.items}
        # A process in the background of a shell inherits that SIGINT is ignored: then nothing would interrupt a test.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def run(job: Job) -> tuple[Outcome, bool] | None:
            return self.run(items[job.test], job, lambda outcome: connection.send((outcome, True)))

        # A run may be cut when it has just ended.
        with suppress(KeyboardInterrupt):
            serve_session(session, connection, run)


def prepare(config: pytest.Config) -> Runner:
    """Let this process run tests for a survey."""
    runner = Runner()
    config.stash.setdefault(brokers.WATCHERS, []).append(runner.watch)
    config.pluginmanager.register(runner, "leveret-needs-runner")
    return runner
