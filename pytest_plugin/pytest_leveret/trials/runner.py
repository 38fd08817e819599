"""One run of a test as a trial: what takes part in its set-up, its call and its teardown, and how it ended."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import pytest
from _pytest.assertion import pytest_runtest_protocol
from _pytest.runner import runtestprotocol

from pytest_leveret import brokers
from pytest_leveret.brokers import recording

if TYPE_CHECKING:
    from leveret import Broker


class Trial:
    """One run of a test. A kind of trial says what it does to the brokers, and what it notes."""

    # Whether something is done to its broker that its strict checks and its contract are not about.
    is_faulty = False

    def begin(self) -> None:
        """Begin, once it has taken the brokers that run already."""

    def watch(self, broker: Broker) -> None:
        """Take a broker that has started, or that the test shares."""

    def calling(self, item: pytest.Item) -> AbstractContextManager[None]:
        """Return what surrounds the call of the test function."""
        return nullcontext()

    def note(self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
        """Note how a phase has ended."""

    def finish(self) -> None:
        """End before the fixtures do, which are no part of the trial."""


class Runner:
    """The part of the plugin through which a trial takes part in the run of its test.

    There is one for all trials of a run, because pytest keeps each plugin that it has had.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.trial = Trial()
        config.stash.setdefault(brokers.WATCHERS, []).append(lambda broker: self.trial.watch(broker))
        config.pluginmanager.register(self, "leveret-runner")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin a trial."""
        for broker in brokers.shared_brokers(item):
            self.trial.watch(broker)
        self.trial.begin()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Item) -> Generator[None, object, object]:
        """Surround the test function."""
        with self.trial.calling(pyfuncitem):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note how a phase has ended."""
        report = yield
        self.trial.note(item, report, call)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """End a trial before the fixtures end."""
        self.trial.finish()


_RUNNER: Final = pytest.StashKey[Runner]()


def trial_of(item: pytest.Item) -> Trial | None:
    """Return the trial that a test runs in, if it does."""
    runner = item.config.stash.get(_RUNNER, None)
    return None if runner is None else runner.trial


@contextmanager
def taking_part(item: pytest.Item, trial: Trial) -> Iterator[None]:
    """Let a trial take part in what runs a test in this block."""
    runner = _runner_of(item.config)
    runner.trial, item.stash[brokers.IS_FAULTY] = trial, trial.is_faulty
    try:
        yield
    finally:
        runner.trial = Trial()
        del item.stash[brokers.IS_FAULTY]


def _runner_of(config: pytest.Config) -> Runner:
    runner = config.stash.get(_RUNNER, None)
    if runner is None:
        runner = config.stash[_RUNNER] = Runner(config)
    return runner


def run(item: pytest.Item, trial: Trial, dog: AbstractContextManager[object] | None = None) -> list[pytest.TestReport]:
    """Run a test, which may have run before, as a trial, and return the reports, which are not logged.

    There are none if `dog` has interrupted it.
    """
    recording.forget(item)
    # Drop what an earlier run logged and printed.
    item._report_sections.clear()
    reports: list[pytest.TestReport] = []
    with taking_part(item, trial):
        # Pytest's assertion plugin calls the hooks of a comparison that fails, within its own part of the protocol.
        with dog or nullcontext(), contextmanager(pytest_runtest_protocol)(item):
            # With the test's parent as the next item, only the fixtures of the test itself are torn down.
            reports = runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]
        if not reports:
            _end_interrupted(item)
    return reports


def _end_interrupted(item: pytest.Item) -> None:
    """Do what pytest does at the end of a test that is not interrupted."""
    item.session._setupstate.teardown_exact(item.parent)  # type: ignore[arg-type]
    if isinstance(item, pytest.Function):
        item._request = False  # type: ignore[assignment]
        item.funcargs = None  # type: ignore[assignment]


def unmarked_outcome(report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    """Return how a phase has ended, whether or not a mark expects it to fail: passed, failed or skipped."""
    if report.failed and report.when == "call" and call.excinfo is None and "xfail" in report.keywords:
        # It passed, and the mark is strict.
        return "passed"
    if report.skipped and hasattr(report, "wasxfail"):
        error = None if call.excinfo is None else call.excinfo.value
        is_not_run = report.when == "setup" and isinstance(error, pytest.xfail.Exception)
        return "skipped" if is_not_run else "failed"
    return report.outcome
