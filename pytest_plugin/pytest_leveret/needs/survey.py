"""The survey: which test runs with which change, on all cores, until each field is known or the time is over.

Each test runs as it is first, in two processes, twice in each: that shows what is to be expected, what differs by
itself, and whether the test can run again in its process. Then each field is removed. A field whose removal does
something gets null and another type in runs of its own. All others of a test get them together in one run, and one for
each half if that does something after all. A later test with the same kind of message removes its fields together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import pytest

from leveret.trials.pool import Done
from pytest_leveret.contract import locks_of
from pytest_leveret.needs import IS_SURVEY
from pytest_leveret.needs.bodies import NULL, REMOVED, RETYPED, FieldChange
from pytest_leveret.needs.effects import BREAKS, NOTHING, Expected, expected_of
from pytest_leveret.needs.findings import FieldNeed, Findings, MessageNeeds, WorstEffect
from pytest_leveret.needs.locking import write_needs
from pytest_leveret.needs.report import lines_of
from pytest_leveret.needs.run import SurveyJob, SurveyOutcome, serve
from pytest_leveret.reports.report import show_progress
from pytest_leveret.trials.processes import Seldom, pool, refuse_broken

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from _pytest.terminal import TerminalReporter

# How often to say how far it is: in a terminal, and in a log, which keeps each line.
_PROGRESS_S: Final = 1.0
_LOGGED_PROGRESS_S: Final = 20.0


@dataclass(slots=True)
class _Test:
    """What is known of one test."""

    plain: list[SurveyOutcome] = field(default_factory=list)
    expected: Expected | None = None
    is_alone: bool = False
    # How many runs with a field removed are not over yet, and the fields of which nothing came.
    open_count: int = 0
    silent: list[FieldChange] = field(default_factory=list)


class Survey:
    """The part of the plugin that measures needs instead of running the session's tests."""

    def __init__(self, seconds: float, lock: Path | None = None) -> None:
        """`lock` is the file that gets the needs; without, it is that of the ini setting `leveret_contract`."""
        self.findings: Final = Findings()
        self.error: OSError | ValueError | None = None
        self._seconds: Final = seconds
        self._lock: Final = lock
        self._tests: Final[dict[str, _Test]] = {}
        self._jobs: Final[deque[SurveyJob]] = deque()
        self._until = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> object:
        """Keep pytest-xdist out: the survey has workers of its own."""
        config.stash[IS_SURVEY] = True
        if hasattr(config.option, "numprocesses"):
            config.option.numprocesses, config.option.tx = 0, []
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure."""
        refuse_broken(session)
        plugins = session.config.pluginmanager
        is_watched = getattr(plugins.get_plugin("terminalreporter"), "isatty", False)
        seldom = Seldom(partial(show_progress, plugins), _PROGRESS_S if is_watched else _LOGGED_PROGRESS_S)
        import_module("leveret.broker")

        def fork(connection: Connection) -> None:
            _be_quiet()
            serve(session, connection)

        began = monotonic()
        self._until = began + self._seconds
        with pool(session.config, serve.__module__, asked_by="leveret needs", fork=fork) as workers:
            for item in session.items:
                self._tests[item.nodeid] = _Test()
                self._jobs.extend([SurveyJob(item.nodeid)] * 2)
            for done in workers.drive(self._next):
                self.take(done)
                counts = f"{self.findings.run_count} runs done, {len(self._jobs)} planned"
                seldom(f"leveret needs: {counts}, {monotonic() - began:.0f} s")
        self.findings.seconds = monotonic() - began
        self.findings.left_count = len(self._jobs)
        for job in self._jobs:
            for change in (*job.changes, *self._tests[job.test].silent):
                self._need(change).is_open = True
        return True

    def _next(self) -> SurveyJob | None:
        while self._jobs and monotonic() < self._until:
            job = self._pruned(self._jobs.popleft())
            if job is not None:
                return job
        return None

    def _pruned(self, job: SurveyJob) -> SurveyJob | None:
        """Return a job without changes that are known to break something; None if none is left."""
        if not job.changes:
            return job
        changes = tuple(it for it in job.changes if self._need(it).severity(it.variant) != BREAKS)
        if not changes:
            self._end_removal(job, [])
            return None
        return SurveyJob(job.test, changes, job.expected, job.is_alone)

    def take(self, done: Done[SurveyJob, SurveyOutcome]) -> None:
        """Take what a run showed."""
        job, outcome = done.job, done.outcome
        if job.expected is None:
            self._take_plain(job.test, outcome or SurveyOutcome(error=f"its process ended: {done.error}"))
            return
        self.findings.run_count += 1
        if job.is_reading:
            if outcome is None:
                # That no code reads these fields was not seen.
                for change in self._tests[job.test].silent:
                    self._need(change).is_open = True
            for kind, paths in {} if outcome is None else outcome.reads.items():
                for path in paths & {*self.findings.messages[kind].fields}:
                    self.findings.need(kind, path).is_read = True
            return
        if outcome is None or not outcome.effects:
            texts = [f"the process of the test ended: {done.error}"]
            self._note(job, WorstEffect(BREAKS, texts))
            return
        assert job.expected is not None
        difference = job.expected.difference(outcome.effects[0].facts)
        if difference.severity == NOTHING:
            self._note_nothing(job, outcome)
        else:
            self._note(job, WorstEffect(difference.severity, difference.texts))

    def _note_nothing(self, job: SurveyJob, outcome: SurveyOutcome) -> None:
        for change in job.changes:
            if change in outcome.applied or _is_within(change, outcome.applied):
                self._need(change).add(change.variant, WorstEffect(NOTHING))
        self._end_removal(job, job.changes)

    def _note(self, job: SurveyJob, effect: WorstEffect) -> None:
        if len(job.changes) == 1:
            change = job.changes[0]
            self._need(change).add(change.variant, effect)
            self._end_removal(job, [])
            if change.variant == REMOVED:
                self._jobs.extendleft(
                    SurveyJob(job.test, (change._replace(variant=variant),), job.expected, job.is_alone)
                    for variant in (RETYPED, NULL)
                )
            return
        # Which of them it was, halves will show.
        middle = len(job.changes) // 2
        halves = [job.changes[:middle], job.changes[middle:]]
        self._jobs.extendleft(SurveyJob(job.test, half, job.expected, job.is_alone) for half in halves)
        self._tests[job.test].open_count += job.changes[0].variant == REMOVED

    def _end_removal(self, job: SurveyJob, silent: Sequence[FieldChange]) -> None:
        """Note the end of a run that removed fields. After the last one, the fields without effect change together."""
        if job.changes[0].variant != REMOVED:
            return
        test = self._tests[job.test]
        test.silent += silent
        test.open_count -= 1
        if test.open_count == 0 and test.silent:
            for variant in (NULL, RETYPED):
                together = tuple(change._replace(variant=variant) for change in test.silent)
                self._jobs.append(SurveyJob(job.test, together, job.expected, job.is_alone))
            self._jobs.append(SurveyJob(job.test, (), job.expected, job.is_alone, is_reading=True))

    def _take_plain(self, name: str, outcome: SurveyOutcome) -> None:
        for module in outcome.modules:
            import_module(module)
        test = self._tests[name]
        test.plain.append(outcome)
        if len(test.plain) < 2:
            return
        if any(it.is_skipped for it in test.plain):
            self.findings.skipped_count += 1
            return
        error = next((it.error for it in test.plain if it.error), "")
        if error:
            self.findings.unusable[name] = error
            return
        self.findings.test_count += 1
        self.findings.broker_count += any(it.has_broker for it in test.plain)
        self.findings.unread_count += sum(it.unread_count for it in test.plain) // 4
        first = [it.effects[0] for it in test.plain]
        later = [effects for it in test.plain for effects in it.effects[1:]]
        test.expected = expected_of(first)
        test.is_alone = any(test.expected.differs_from(effects.facts) for effects in later)
        if not test.is_alone:
            test.expected = expected_of([*first, *later])
        self._plan(name, test)

    def _plan(self, name: str, test: _Test) -> None:
        """Add the runs in which each field of a test is removed."""
        alone: list[FieldChange] = []
        together: list[FieldChange] = []
        for outcome in test.plain:
            for kind, fields in outcome.fields.items():
                message = self.findings.messages.setdefault(kind, MessageNeeds(kind))
                message.tests[name] = None
                message.clients |= outcome.clients[kind]
                for path, types in fields.items():
                    change = FieldChange(kind, path, REMOVED)
                    if path not in message.fields:
                        message.fields[path] = FieldNeed(set(types))
                        alone.append(change)
                    elif change not in alone and change not in together:
                        message.fields[path].types |= types
                        together.append(change)
        jobs = [(change,) for change in alone] + ([tuple(together)] if together else [])
        test.open_count = len(jobs)
        self._jobs.extend(SurveyJob(name, changes, test.expected, test.is_alone) for changes in jobs)

    def _need(self, change: FieldChange) -> FieldNeed:
        return self.findings.need(change.kind, change.path)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show what was found."""
        for line in lines_of(self.findings, self._seconds):
            terminalreporter.write_line(line)
        config = terminalreporter.config
        file = self._lock or next(iter(locks_of(config)), None)
        if file is not None and self.findings.messages:
            try:
                for line in write_needs(self.findings, file):
                    terminalreporter.write_line(line)
            except (OSError, ValueError) as error:
                self.error = error


def _is_within(change: FieldChange, applied: Iterable[FieldChange]) -> bool:
    """Return whether a change was not needed, because it was within another one that was made."""
    return any(
        other.kind == change.kind and other.path == change.path[: len(other.path)] and other != change
        for other in applied
    )


def _be_quiet() -> None:
    """Keep what tests print in a worker out of the terminal."""
    import os

    sink = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(sink, number)
