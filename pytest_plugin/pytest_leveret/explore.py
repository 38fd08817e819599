"""The marker `leveret_explore`: a test is run once plainly, then once for each fault at each step of its broker.

Each run has its own fixtures of function scope, a fresh broker among them, and goes through all of pytest's hooks but
the one that reports it. What is reported is one run: the plain one when all went well, else the shortest that failed.
"""

from __future__ import annotations

import _thread
import logging
import signal
import threading
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.runner import runtestprotocol

from pytest_leveret import brokers
from pytest_leveret.markers import place_of

if TYPE_CHECKING:
    from leveret import Broker, Exploration
    from leveret.exploration import Run, Schedule, Settings
    from leveret.exploration.watcher import Watcher

NAME: Final = "leveret_explore"
LINE: Final = (
    "leveret_explore(faults=('lost before', ...), on='*', pairs=0, only=None, limit=10, keep_going=False, seed=0): run "
    "the test once plainly, then once for each fault at each step of the broker of the fixture `leveret`, in the words "
    "of `leveret.explore`."
)
WORDS: Final = ("faults", "on", "pairs", "only", "limit", "keep_going", "seed")
_ONLY: Final = "leveret_explore_only"
_GRACE_S: Final = 2.0


@dataclass(slots=True)
class Play:
    """This is one run of a test: what goes wrong in it, and what pytest had to say of it."""

    run: Run
    settings: Settings
    broker: Broker | None = None
    watcher: Watcher | None = None
    reports: list[pytest.TestReport] = field(default_factory=list)


_PLAY: Final = pytest.StashKey[Play]()


def add_option(parser: pytest.Parser) -> None:
    """Tell pytest of the option that replays one schedule."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
    group.addoption(
        "--leveret-explore-only",
        dest=_ONLY,
        metavar="SCHEDULE",
        default=None,
        help="the one schedule that tests marked leveret_explore are run under, as their report names it",
    )


def refuse_wrong_marker(item: pytest.Item) -> None:
    """End a test whose marker cannot be meant, with the place of the test."""
    if item.get_closest_marker(NAME) is None or item.stash.get(_PLAY, None) is not None:
        return
    try:
        _settings_of(item)
    except (TypeError, ValueError) as error:
        raise pytest.fail.Exception(f"{place_of(item)}: {NAME}: {error}", pytrace=False) from None


def _settings_of(item: pytest.Item) -> Settings:
    from leveret.errors import unknown_keyword
    from leveret.exploration import Settings

    words: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(NAME))):
        if mark.args:
            raise TypeError("the marker takes keywords only, as in leveret_explore(on='basic.*')")
        for word in mark.kwargs:
            if word not in WORDS:
                raise unknown_keyword("the marker leveret_explore", word, WORDS)
        words |= mark.kwargs
    if "leveret" not in getattr(item, "fixturenames", ()):
        raise TypeError("the test does not use the fixture leveret, so there is no broker to explore")
    only = item.config.getoption(_ONLY)
    return Settings(**words | ({"only": only} if only is not None else {}))


def is_faulty(item: pytest.Item) -> bool:
    """Whether this run of a test has a fault in it, so that its broker is not to be judged."""
    play = item.stash.get(_PLAY, None)
    return play is not None and bool(play.run.schedule.placements)


def watch(item: pytest.Item, broker: Broker) -> None:
    """Number the steps of a test's broker, if it is explored."""
    play = item.stash.get(_PLAY, None)
    if play is not None:
        from leveret.exploration.watcher import Watcher

        play.broker, play.watcher = broker, Watcher(broker, play.run.schedule, play.settings.kinds)
        play.watcher.start()


def end_watch(item: pytest.Item) -> None:
    """Number no more: what comes now is not the test's, but its fixtures' end."""
    play = item.stash.get(_PLAY, None)
    if play is not None and play.watcher is not None and play.broker is not None:
        play.watcher.stop()


def note_failure(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keep what a run of an explored test raised first."""
    play = item.stash.get(_PLAY, None)
    if play is not None and call.excinfo is not None and play.run.error is None:
        play.run.error = call.excinfo.value


class Explorer:
    """This runs tests that are to be explored."""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Under -v show how far an exploration has come, for it may take a minute."""
        if config.option.verbose > 0:
            progress, logger = Progress(config), logging.getLogger("leveret.exploration")
            config.add_cleanup(partial(logger.removeHandler, progress))
            config.add_cleanup(partial(logger.setLevel, logger.level))
            logger.addHandler(progress)
            logger.setLevel(logging.INFO)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a marked test under one schedule after the other, and report one run."""
        if item.get_closest_marker(NAME) is None:
            return None
        try:
            settings = _settings_of(item)
        except (TypeError, ValueError):
            # Told when the test is set up.
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        began = perf_counter()
        reports = Playing(item, settings).explore()
        told = next((report for report in reports if report.when == "call"), reports[-1])
        told.duration = perf_counter() - began
        reports += _last_teardown(item, nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


class Progress(logging.Handler):
    """This shows what exploration logs while it runs, in the terminal and past whatever captures output."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(logging.INFO)
        self._plugins: Final = config.pluginmanager

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; in a worker of xdist there is nowhere to write it."""
        reporter, capture = self._plugins.get_plugin("terminalreporter"), self._plugins.get_plugin("capturemanager")
        if reporter is not None:
            with nullcontext() if capture is None else capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(f"  {record.getMessage()}")


def _last_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """End what the next test does not need; between the runs of a test all but its own fixtures has stayed."""
    del item.stash[_PLAY]
    call = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown")
    if call.excinfo is None:
        return []
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return [report]


class Playing:
    """This explores one test."""

    def __init__(self, item: pytest.Item, settings: Settings) -> None:
        self._item: Final = item
        self._settings: Final = settings
        self._failed: Final[list[Play]] = []

    def explore(self) -> list[pytest.TestReport]:
        """The reports of the run that is to be told."""
        from leveret.errors import LeveretWarning
        from leveret.exploration import Schedule
        from leveret.exploration.report import divergence_text

        plain = self._play(Schedule())
        if plain.run.has_failed or not _have_passed(plain.reports):
            return self._plain_failure(plain)
        found = self._settings.search(lambda schedule: self._play(schedule).run, plain.run)
        if found.failed_runs:
            return self._reports_of(found)
        if not found.run_count:
            return _with_failure(plain.reports, self._settings.no_steps_text(found))
        if found.diverged_runs and self._settings.only is not None:
            return _with_failure(plain.reports, f"{divergence_text(found)}\nnothing was explored")
        if found.diverged_runs:
            self._item.warn(LeveretWarning(divergence_text(found)))
        return plain.reports

    def _play(self, schedule: Schedule) -> Play:
        from leveret.exploration import Run

        play = self._item.stash[_PLAY] = Play(Run(schedule), self._settings)
        brokers.begin_again(self._item)
        # What a run before has logged and printed.
        self._item._report_sections.clear()
        with Watchdog(self._item, play):
            # The parent of a test needs all that its neighbours do.
            play.reports = runtestprotocol(self._item, log=False, nextitem=self._item.parent)  # type: ignore[arg-type]
        if play.broker is not None and play.watcher is not None:
            play.run.collect(play.broker, play.watcher)
        if play.run.has_failed:
            self._failed.append(play)
        return play

    def _plain_failure(self, plain: Play) -> list[pytest.TestReport]:
        if plain.run.hang is None:
            return plain.reports
        from leveret.exploration.report import plain_hang_text

        return self._ended(plain, plain_hang_text(plain.run))

    def _reports_of(self, found: Exploration) -> list[pytest.TestReport]:
        """Those of the first run that failed, with what exploration has to say of it."""
        from leveret.exploration.report import failure_text

        run = found.failed_runs[0]
        play = next(play for play in self._failed if play.run is run)
        line = f"pytest '{self._item.nodeid}' --leveret-explore-only='{run.schedule}'"
        return self._ended(play, failure_text(found, self._settings.kinds, line))

    def _ended(self, play: Play, text: str) -> list[pytest.TestReport]:
        """The reports of a run that failed, of which one says so."""
        failed = next((report for report in play.reports if report.failed), None)
        if failed is None:
            return _with_failure(play.reports or [_report(self._item)], text)
        addsection = getattr(failed.longrepr, "addsection", None)
        if addsection is None:
            failed.longrepr = f"{failed.longreprtext}\n\n{text}"
        else:
            addsection("exploration", text)
        return play.reports


def _have_passed(reports: list[pytest.TestReport]) -> bool:
    return bool(reports) and all(report.outcome == "passed" and not hasattr(report, "wasxfail") for report in reports)


def _with_failure(reports: list[pytest.TestReport], text: str) -> list[pytest.TestReport]:
    """Let a test fail that has not failed by itself."""
    report = next((report for report in reports if report.when == "call"), reports[0])
    report.outcome, report.longrepr = "failed", text
    return reports


def _report(item: pytest.Item) -> pytest.TestReport:
    """The report of a test that was interrupted, for which pytest makes none."""
    return pytest.TestReport(item.nodeid, item.location, dict(item.keywords), "failed", None, "call")


class Watchdog:
    """This ends a run that takes too long: its broker stops, so that clients give up; then it is interrupted."""

    def __init__(self, item: pytest.Item, play: Play) -> None:
        self._item: Final = item
        self._play: Final = play
        self._over: Final = threading.Event()
        self._lock: Final = threading.Lock()
        self._has_interrupted = False
        self._watched: Final = threading.get_ident()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, daemon=True, name="leveret watchdog").start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        with self._lock:
            self._over.set()
        if not (self._has_interrupted and isinstance(error, KeyboardInterrupt)):
            return False
        # What pytest does at the end of a test that is not interrupted.
        self._item.session._setupstate.teardown_exact(self._item.parent)  # type: ignore[arg-type]
        if isinstance(self._item, pytest.Function):
            self._item._request = False  # type: ignore[assignment]
            self._item.funcargs = None  # type: ignore[assignment]
        return True

    def _watch(self) -> None:
        from leveret.observe.callers import is_at_prompt

        while not self._over.wait(self._play.settings.limit):
            if not is_at_prompt(self._watched):
                self._end()
                return

    def _end(self) -> None:
        from leveret.engine.harness import Harness
        from leveret.exploration.run import hang_text

        with self._lock:
            if self._over.is_set():
                return
            self._play.run.hang = hang_text(self._watched, self._play.settings.limit)
        if self._play.broker is not None:
            self._play.run.state = Harness(self._play.broker).report()
            self._play.broker.stop()
        if self._over.wait(_GRACE_S):
            return
        with self._lock:
            if not self._over.is_set():
                self._has_interrupted = True
                _interrupt(self._watched)


def _interrupt(thread: int) -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        _thread.interrupt_main()
