"""The harness: what a test framework's plugin asks of a broker, beside what a test asks.

It tells the trace which test runs, hands over errors of leveret's own once each, and describes a broker for the report
of a failed test. It raises nothing about a broker that has stopped or belongs to another process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from leveret.observe.checks.judge import Verdict
from leveret.observe.report import report_text
from leveret.observe.state import why_not_idle
from leveret.trace import events
from leveret.trace.events import Event

if TYPE_CHECKING:
    from leveret.engine.engine import Engine
    from leveret.trace.trace_file import TraceFile


class HasEngine(Protocol):
    """A broker, as far as its harness needs it."""

    _engine: Engine


class Harness:
    """This is what a plugin does with one broker."""

    def __init__(self, broker: HasEngine) -> None:
        """It looks after that broker."""
        self._engine = broker._engine
        self._name = repr(broker)

    def begin_test(self, node_id: str) -> None:
        """This writes into the trace that a test begins."""
        self._tap(events.TEST_START, node_id)

    def belong_to(self, node_id: str) -> None:
        """The broker is that test's own: who is still connected when it stops is told whose it was."""
        self._engine.owner = node_id

    def end_test(self, node_id: str, outcome: str, duration: float) -> None:
        """This writes into the trace how a test ended, after `duration` seconds."""
        self._tap(events.TEST_END, node_id, outcome, round(duration, 6))

    @property
    def trace_file(self) -> TraceFile | None:
        """This is the trace file the broker writes to, with everything in it that has happened by now."""
        writer = self._engine.recorder.writer
        if writer is None or not self._is_ours:
            return None
        with self._engine.lock:
            writer.write()
            return writer.open()

    def _tap(self, kind: str, *fields: object) -> None:
        if self._is_ours:
            with self._engine.lock:
                node = self._engine.node
                if node.hooks.tap is not None:
                    node.hooks.tap((kind, node.now, *fields))

    @property
    def _is_ours(self) -> bool:
        return not self._engine.loop.is_abandoned

    def settle(self) -> None:
        """This is the barrier, so that what clients sent last is handled, and goes wrong, before the broker stops."""
        if self._is_ours:
            self._engine.sync()

    def events_of(self, node_id: str) -> list[Event]:
        """These are the events since that test began, or all that are left."""
        if not self._is_ours:
            return []
        with self._engine.lock:
            raw_events = self._engine.recorder.raw()
        began = max(
            (at for at, raw in enumerate(raw_events) if (raw[0], raw[-1]) == (events.TEST_START, node_id)), default=0
        )
        return [Event(raw) for raw in raw_events[began:]]

    @property
    def is_complete(self) -> bool:
        """Whether the trace shows everything, because none of it was dropped and nothing is under way."""
        if not self._is_ours:
            return False
        with self._engine.lock:
            recorder = self._engine.recorder
            is_idle = not (why_not_idle(self._engine.node) or self._engine.kept_back())
            return recorder.is_on and not recorder.has_dropped and is_idle

    def take_internal_errors(self) -> list[BaseException]:
        """These are leveret's own errors, those of the test's answers, and of time without end, since last asked."""
        if not self._is_ours:
            return []
        with self._engine.lock:
            errors = []
            for kept in (self._engine.node.internal_errors, self._engine.script_errors):
                errors += kept
                kept.clear()
            if self._engine.time_error is not None:
                errors.append(self._engine.time_error)
                self._engine.time_error = None
        return errors

    def judge(self) -> Verdict:
        """This is what strict checks have found in what happened by now, and not said yet."""
        if not self._is_ours:
            return Verdict()
        self._engine.judge.catch_up()
        return self._engine.judge.verdict()

    def excuse(self) -> None:
        """This forgets what strict checks have found by now: the test has failed, or said that it will."""
        if self._is_ours:
            self._engine.judge.catch_up()
            self._engine.judge.forget()

    def report(self) -> str:
        """This is the state of the broker, what it refused, and the last that happened."""
        if not self._is_ours:
            return f"{self._name}, started by process {self._engine.loop.process}"
        with self._engine.lock:
            title = f"{self._name}, seed={self._engine.seed}"
            return report_text(self._engine.node, self._engine.recorder, title) + self._engine.faults_text()
