"""The marker `leveret_explore`: run a test once without a fault, then once for each fault at each step of its broker.

Each run has its own function-scoped fixtures, including a fresh broker, and runs all of pytest's hooks except the one
that reports it. Only one run is reported: the plain one if all passed, or else the shortest that failed.
"""

from __future__ import annotations

import _thread
import logging
import signal
import threading
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_leveret.brokers import run_again
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.options import EXPLORE_ONLY
from pytest_leveret.options.markers import EXPLORE_NAME, failure_at
from pytest_leveret.reports.report import add_section, show_progress

if TYPE_CHECKING:
    from leveret import Broker, Exploration
    from leveret.exploration import Run, Schedule, Settings
    from leveret.exploration.watcher import Watcher

WORDS: Final = ("faults", "on", "pairs", "only", "limit", "keep_going", "seed", "seconds")
_GRACE_S: Final = 2.0


@dataclass(slots=True)
class Play:
    """One run of a test: its schedule and outcome, and pytest's reports of it."""

    run: Run
    settings: Settings
    broker: Broker | None = None
    watcher: Watcher | None = None
    reports: list[pytest.TestReport] = field(default_factory=list)


_PLAY: Final = pytest.StashKey[Play]()


def refuse_wrong_marker(item: pytest.Item) -> None:
    """Fail a test whose marker is invalid, with the place of the test."""
    if item.get_closest_marker(EXPLORE_NAME) is None or item.stash.get(_PLAY, None) is not None:
        return
    try:
        _settings_of(item)
    except (TypeError, ValueError) as error:
        raise failure_at(item, f"{EXPLORE_NAME}: {error}") from None


def _settings_of(item: pytest.Item) -> Settings:
    from leveret.errors import unknown_keyword
    from leveret.exploration import Settings

    words: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(EXPLORE_NAME))):
        if mark.args:
            raise TypeError("the marker takes keywords only, as in leveret_explore(on='basic.*')")
        for word in mark.kwargs:
            if word == "processes":
                raise TypeError(
                    "the runs of a test share its fixtures, so they stay in its process; leave processes out, or call "
                    "leveret.explore(scenario, processes=...)"
                )
            if word not in WORDS:
                raise unknown_keyword("the marker leveret_explore", word, WORDS)
        words |= mark.kwargs
    if "leveret" not in getattr(item, "fixturenames", ()):
        raise TypeError("the test does not use the fixture leveret; exploration needs the broker of that fixture")
    only = item.config.getoption(EXPLORE_ONLY)
    return Settings(**words | ({"only": only} if only is not None else {}))


def is_faulty(item: pytest.Item) -> bool:
    """Return whether this run of a test has a fault, so that strict checks do not apply to its broker."""
    play = item.stash.get(_PLAY, None)
    return play is not None and bool(play.run.schedule.placements)


def watch(item: pytest.Item, broker: Broker) -> None:
    """Watch the steps of a test's broker, if the test is explored."""
    play = item.stash.get(_PLAY, None)
    if play is not None:
        from leveret.exploration.watcher import Watcher

        play.broker, play.watcher = broker, Watcher(broker, play.run.schedule, play.settings.kinds)
        play.watcher.start()


def end_watch(item: pytest.Item) -> None:
    """Stop watching, because what happens from now on is the teardown of fixtures."""
    play = item.stash.get(_PLAY, None)
    if play is not None and play.watcher is not None and play.broker is not None:
        play.watcher.stop()


def note_failure(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keep the first exception of a run of an explored test."""
    play = item.stash.get(_PLAY, None)
    if play is not None and call.excinfo is not None and play.run.error is None:
        play.run.error = call.excinfo.value


class Explorer:
    """The part of the plugin that runs explored tests."""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Show the progress of explorations under -v, because one can take a minute."""
        if config.option.verbose > 0:
            progress, logger = Progress(config), logging.getLogger("leveret.exploration")
            config.add_cleanup(partial(logger.removeHandler, progress))
            config.add_cleanup(partial(logger.setLevel, logger.level))
            logger.addHandler(progress)
            logger.setLevel(logging.INFO)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a marked test under one schedule after another, and report one run."""
        if item.get_closest_marker(EXPLORE_NAME) is None:
            return None
        try:
            settings = _settings_of(item)
        except (TypeError, ValueError):
            # Raised when the test is set up.
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        began = perf_counter()
        reports = ExploredTest(item, settings).explore()
        main_report = next((report for report in reports if report.when == "call"), reports[-1])
        main_report.duration = perf_counter() - began
        reports += _last_teardown(item, nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


class Progress(logging.Handler):
    """A handler that shows the log of an exploration in the terminal, even while pytest captures output."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(logging.INFO)
        self._plugins: Final = config.pluginmanager

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, except in a worker of xdist, which has no terminal."""
        show_progress(self._plugins, record.getMessage())


def _last_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """Tear down what the next test does not need. Between runs, only the test's own fixtures were torn down."""
    del item.stash[_PLAY]
    call = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown")
    if call.excinfo is None:
        return []
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return [report]


class ExploredTest:
    """One test that is explored."""

    def __init__(self, item: pytest.Item, settings: Settings) -> None:
        self._item: Final = item
        self._settings: Final = settings
        self._failed: Final[list[Play]] = []

    def explore(self) -> list[pytest.TestReport]:
        """Run all schedules and return the reports of the run to show."""
        from leveret.errors import LeveretWarning
        from leveret.exploration import Schedule
        from leveret.exploration.logs import STRAYS
        from leveret.exploration.report import divergence_text, skipped_text
        from leveret.exploration.search import report

        plain = self._play(Schedule())
        if plain.run.has_failed or not _have_passed(plain.reports):
            return self._plain_failure(plain)
        found = self._settings.search(lambda schedule: self._play(schedule).run, plain.run)
        if (capture := self._item.config.pluginmanager.get_plugin("logging-plugin")) is not None:
            STRAYS.hide((capture.caplog_handler, capture.report_handler))
        if found.failed_runs:
            return self._reports_of(found)
        if not found.run_count:
            return _with_failure(plain.reports, self._settings.no_steps_text(found))
        if found.diverged_runs and self._settings.only is not None:
            return _with_failure(plain.reports, f"{divergence_text(found)}\nnothing was explored")
        if found.diverged_runs:
            self._item.warn(LeveretWarning(divergence_text(found)))
        if found.skipped:
            self._item.warn(LeveretWarning(skipped_text(found)))
        report(str(found))
        return plain.reports

    def _play(self, schedule: Schedule) -> Play:
        from leveret.exploration import Run

        play = self._item.stash[_PLAY] = Play(Run(schedule), self._settings)
        with Watchdog(self._item, play):
            play.reports = run_again(self._item)
        play.run.is_skipped = any(report.skipped and not hasattr(report, "wasxfail") for report in play.reports)
        if play.broker is not None and play.watcher is not None:
            play.run.collect(play.broker, play.watcher)
        if play.run.has_failed:
            self._failed.append(play)
        return play

    def _plain_failure(self, plain: Play) -> list[pytest.TestReport]:
        if plain.run.hang is None:
            return plain.reports
        from leveret.exploration.report import plain_hang_text

        return self._with_text(plain, plain_hang_text(plain.run))

    def _reports_of(self, found: Exploration) -> list[pytest.TestReport]:
        """Return the reports of the first run that failed, with the report of the exploration."""
        from leveret.exploration.report import failure_text

        run = found.failed_runs[0]
        play = next(play for play in self._failed if play.run is run)
        line = f"pytest '{self._item.nodeid}' --leveret-explore-only='{run.schedule}'"
        return self._with_text(play, failure_text(found, self._settings.kinds, line))

    def _with_text(self, play: Play, text: str) -> list[pytest.TestReport]:
        """Add a text to the reports of a run that failed, and return them."""
        failed = next((report for report in play.reports if report.failed), None)
        if failed is None:
            return _with_failure(play.reports or [_report(self._item)], text)
        add_section(failed, "exploration", text)
        return play.reports


def _have_passed(reports: list[pytest.TestReport]) -> bool:
    return bool(reports) and all(report.outcome == "passed" and not hasattr(report, "wasxfail") for report in reports)


def _with_failure(reports: list[pytest.TestReport], text: str) -> list[pytest.TestReport]:
    """Turn the reports of a run that passed into those of a failure."""
    report = next((report for report in reports if report.when == "call"), reports[0])
    report.outcome, report.longrepr = "failed", text
    return reports


def _report(item: pytest.Item) -> pytest.TestReport:
    """Return a report for a test that was interrupted, because pytest makes none."""
    return pytest.TestReport(item.nodeid, item.location, dict(item.keywords), "failed", None, "call")


class Watchdog:
    """A watchdog that ends a run that takes too long.

    It first stops the broker, so that clients give up. If the run goes on, it interrupts the thread of the test.
    """

    def __init__(self, item: pytest.Item, play: Play) -> None:
        self._item: Final = item
        self._play: Final = play
        self._over: Final = threading.Event()
        self._lock: Final = threading.Lock()
        self._has_interrupted = False
        self._watched: Final = threading.get_ident()
        is_main = threading.current_thread() is threading.main_thread()
        self._is_background: Final = is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def __enter__(self) -> None:
        # A process in the background of a shell inherits that SIGINT is ignored: then nothing would interrupt the test.
        if self._is_background:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=self._watch, daemon=True, name="leveret watchdog").start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        with self._lock:
            self._over.set()
        if self._is_background:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not (self._has_interrupted and isinstance(error, KeyboardInterrupt)):
            return False
        # Do what pytest does at the end of a test that is not interrupted.
        self._item.session._setupstate.teardown_exact(self._item.parent)  # type: ignore[arg-type]
        if isinstance(self._item, pytest.Function):
            self._item._request = False  # type: ignore[assignment]
            self._item.funcargs = None  # type: ignore[assignment]
        return True

    def _watch(self) -> None:
        from leveret.observe.calls.callers import is_at_prompt

        while not self._over.wait(self._play.settings.limit):
            if not is_at_prompt(self._watched):
                self._end()
                return

    def _end(self) -> None:
        from leveret.exploration.run import hang_text

        with self._lock:
            if self._over.is_set():
                return
            self._play.run.hang = hang_text(self._watched, self._play.settings.limit)
        if self._play.broker is not None:
            self._play.run.state = harness_of(self._play.broker).report()
            self._play.broker.stop()
        if self._over.wait(_GRACE_S):
            return
        with self._lock:
            if not self._over.is_set():
                self._has_interrupted = True
                interrupt(self._watched)


def interrupt(thread: int) -> None:
    """Raise KeyboardInterrupt in a thread, which is the main one."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        _thread.interrupt_main()
