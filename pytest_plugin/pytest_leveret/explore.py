"""The marker `leveret_explore`: run a test once without a fault, then once for each fault at each step of its broker.

Each run has its own function-scoped fixtures, including a fresh broker, and runs all of pytest's hooks except the one
that reports it. Only one run is reported: the plain one if all passed, or else the shortest that failed.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.brokers.recording import ending_of
from pytest_leveret.options import EXPLORE_ONLY
from pytest_leveret.options.markers import EXPLORE_NAME, failure_at
from pytest_leveret.reports.report import add_section, show_progress
from pytest_leveret.trials.runner import Trial, run, trial_of

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.exploration import Schedule, Settings
    from leveret.exploration.watcher import Watcher

WORDS: Final = ("faults", "on", "pairs", "only", "limit", "keep_going", "seed", "seconds")
_GRACE_S: Final = 2.0


class ScheduledTrial(Trial):
    """One run of a test: its schedule and outcome, and pytest's reports of it."""

    def __init__(self, item: pytest.Item, schedule: Schedule, settings: Settings) -> None:
        from leveret.exploration import Run

        self.run: Final = Run(schedule)
        self.is_faulty = bool(schedule.placements)
        self._item: Final = item
        self._settings: Final = settings
        self._broker: Broker | None = None
        self._watcher: Watcher | None = None
        self._thread: Final = threading.get_ident()
        self.reports: list[pytest.TestReport] = []

    def play(self) -> None:
        """Run the test."""
        from leveret.trials.watchdog import Watchdog

        self.reports = run(self._item, self, Watchdog(self._hangs, self._end, (_GRACE_S,)))
        self.run.is_skipped = ending_of(self.reports)[1] == "skipped"
        if self._broker is not None and self._watcher is not None:
            self.run.collect(self._broker, self._watcher)

    def explore(self, broker: Broker) -> None:
        """Watch the steps of the test's broker."""
        from leveret.exploration.watcher import Watcher

        self._broker, self._watcher = broker, Watcher(broker, self.run.schedule, self._settings.kinds)
        self._watcher.start()

    def note(self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
        """Keep the first exception."""
        if report.failed and call.excinfo is not None and self.run.error is None:
            self.run.error = call.excinfo.value

    def finish(self) -> None:
        """Stop watching, because what happens from now on is the teardown of fixtures."""
        if self._watcher is not None:
            self._watcher.stop()

    def _hangs(self, over: threading.Event) -> bool:
        from leveret.trials.watchdog import ends_within

        return not ends_within(over, self._thread, self._settings.limit)

    def _end(self) -> None:
        from leveret.trials.watchdog import hang_text

        self.run.hang = hang_text(self._thread, self._settings.limit)
        if self._broker is not None:
            self.run.state = harness_of(self._broker).report()
            self._broker.stop()


def refuse_wrong_marker(item: pytest.Item) -> None:
    """Fail a test whose marker is invalid, with the place of the test."""
    if item.get_closest_marker(EXPLORE_NAME) is None or isinstance(trial_of(item), ScheduledTrial):
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


def watch(item: pytest.Item, broker: Broker) -> None:
    """Watch the steps of a test's broker, if the test is explored."""
    if isinstance(trial := trial_of(item), ScheduledTrial):
        trial.explore(broker)


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
        self._failed: Final[list[ScheduledTrial]] = []

    def explore(self) -> list[pytest.TestReport]:
        """Run all schedules and return the reports of the run to show."""
        from leveret.errors import LeveretWarning
        from leveret.exploration import ExplorationFailedError, Schedule
        from leveret.exploration.logs import STRAYS
        from leveret.exploration.report import plain_hang_text

        plain = self._play(Schedule())
        if plain.run.hang is not None:
            return self._with_text(plain, plain_hang_text(plain.run))
        if plain.run.has_failed or ending_of(plain.reports)[1] != "passed":
            return plain.reports
        found = self._settings.search(lambda schedule: self._play(schedule).run, plain.run)
        if (capture := self._item.config.pluginmanager.get_plugin("logging-plugin")) is not None:
            STRAYS.hide((capture.caplog_handler, capture.report_handler))
        try:
            warned = self._settings.conclude(found, self._replay)
        except ExplorationFailedError as failure:
            run = found.failed_runs[0] if found.failed_runs else plain.run
            play = next((play for play in self._failed if play.run is run), plain)
            return self._with_text(play, str(failure))
        except ValueError as error:
            return self._with_text(plain, str(error))
        for text in warned:
            self._item.warn(LeveretWarning(text))
        return plain.reports

    def _replay(self, schedule: Schedule) -> str:
        return f"pytest '{self._item.nodeid}' --leveret-explore-only='{schedule}'"

    def _play(self, schedule: Schedule) -> ScheduledTrial:
        play = ScheduledTrial(self._item, schedule, self._settings)
        play.play()
        if play.run.has_failed:
            self._failed.append(play)
        return play

    def _with_text(self, play: ScheduledTrial, text: str) -> list[pytest.TestReport]:
        """Add a text to the reports of a run that failed, and return them."""
        failed = next((report for report in play.reports if report.failed), None)
        if failed is None:
            return _with_failure(play.reports or [_report(self._item)], text)
        add_section(failed, "exploration", text)
        return play.reports


def _with_failure(reports: list[pytest.TestReport], text: str) -> list[pytest.TestReport]:
    """Turn the reports of a run that passed into those of a failure."""
    report = next((report for report in reports if report.when == "call"), reports[0])
    report.outcome, report.longrepr = "failed", text
    return reports


def _report(item: pytest.Item) -> pytest.TestReport:
    """Return a report for a test that was interrupted, because pytest makes none."""
    return pytest.TestReport(item.nodeid, item.location, dict(item.keywords), "failed", None, "call")
