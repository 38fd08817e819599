"""The harness: what the plugin of a test framework needs of a broker, in addition to what a test needs.

It records which test runs, hands over each of leveret's own errors once, and describes a broker for the report of a
failed test. It raises nothing about a broker that has stopped or belongs to another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from leveret.observe.checks.judge import Verdict
from leveret.observe.texts.handle import MADE, Handle
from leveret.observe.texts.state import why_not_idle
from leveret.trace import events
from leveret.trace.events import Event, RawEvent

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.engine.engine import Engine
    from leveret.faults.plan import Treatment
    from leveret.observe.texts.report import Report
    from leveret.page.readings.reading import Reading
    from leveret.story.asked import Asked
    from leveret.story.diagnosis import Diagnosis
    from leveret.story.timeline import Timeline
    from leveret.trace.trace_file import TraceFile


_OUTPUT_LINES: Final = 60


class HasEngine(Protocol):
    """A broker, as far as its harness needs it."""

    _engine: Engine


class Harness:
    """What a plugin does with one broker."""

    def __init__(self, broker: HasEngine) -> None:
        """Look after that broker."""
        self._engine = broker._engine

    def begin_test(self, node_id: str) -> None:
        """Record that a test begins. It does not wait for clients that an earlier test has lost."""
        self._tap(events.TEST_START, node_id)
        self._engine.test = node_id
        self._engine.explaining.forget()
        if self._is_ours:
            with self._engine.lock:
                self._engine.node.strangers.clear()
                for vhost in self._engine.node.vhosts.values():
                    vhost.lost_consumers.clear()
                    for queue in vhost.queues.values():
                        queue.lost_client = None

    def name_in_tests(self, name: str) -> None:
        """Note the name of the fixture, by which the tests call the broker."""
        self._engine.handle = self._engine.handle._replace(name=name)

    def call(self, name: str) -> None:
        """Call the broker by a name in every text."""
        self._engine.given_name = name
        self.name_in_tests(name)

    @property
    def given_name(self) -> str | None:
        """The name that `call` gave the broker."""
        return self._engine.given_name

    @property
    def fixture(self) -> str | None:
        """The fixture by whose name the tests call the broker; None if no fixture gives it."""
        name = self._engine.handle.name
        return None if name in ("", MADE.name) else name

    def leave_port(self) -> None:
        """Accept no more clients, until `broker.admin.revive()`. Those that are connected stay."""
        self._engine.close_ports()

    def belong_to(self, node_id: str) -> None:
        """Note that the broker belongs to one test.

        Clients that are connected when it stops get the test's name in the close text.
        """
        self._engine.owner = node_id
        self._engine.handle = self._engine.handle._replace(reach="one test")

    @property
    def has_clients(self) -> bool:
        """Whether a client has ever connected."""
        return self._engine.connection_count > 0

    def serve_many(self, name: str | None = None) -> None:
        """Note that the broker serves many tests, which call it by a name; "" if they hold no object of it."""
        handle = self._engine.handle
        self._engine.handle = Handle(handle.name if name is None else name, "many tests")

    def judge_by(self, checks: str | None) -> None:
        """Judge by further levels of checks from now on, or by those of the broker alone again."""
        if self._is_ours:
            self._engine.judge.judge_by(checks)

    def expect_client(self) -> None:
        """Report a test to whose broker no client comes, from now on."""
        from leveret.engine.engine import ports_so_far

        self._engine.judge.expect_client(self._engine, ports_so_far)

    def end_expecting(self, *, counts: bool = True) -> None:
        """Look whether a client has come. Call it at the end of the test, before anything else looks at the broker.

        It is no finding unless it `counts`.
        """
        if self._is_ours:
            self._engine.judge.end_expecting(counts=counts)

    def outputs(self) -> list[tuple[str, str]]:
        """Return the name of each worker, and the last lines of what it has printed."""
        return [(name, "\n".join(line for _, line in lines[-_OUTPUT_LINES:])) for name, lines in self.printed()]

    def printed(self) -> list[tuple[str, list[tuple[int, str]]]]:
        """Return the name of each worker that has printed something, and its lines with the time of each."""
        return [(worker.name, worker.lines) for worker in self._engine.workers if worker.lines]

    def name_variables(self, names: Sequence[str]) -> None:
        """Note which environment variables hold the broker's URL, for its report."""
        self._engine.url_variables = tuple(names)

    def end_test(self, node_id: str, outcome: str, duration: float, error: str | None = None) -> None:
        """Record how a test ended, after `duration` seconds, and the text of what it failed with."""
        self._tap(events.TEST_END, node_id, outcome, round(duration, 6), error)

    @property
    def trace_file(self) -> TraceFile | None:
        """The trace file the broker writes to, with everything in it that has happened so far."""
        writer = self._engine.recorder.writer
        if writer is None or not self._is_ours:
            return None
        with self._engine.lock:
            writer.write()
            return writer.open()

    def treat(self, treatment: Treatment) -> None:
        """Let the broker have a treatment from now on. Raises BrokerError if it has another one."""
        from leveret.faults.plan import treat

        with self._engine.looking():
            treat(self._engine.faults, treatment)
            self._engine.before_answer = treatment.catch_up

    def end_treatment(self, let_go: Callable[[], None] = lambda: None) -> None:
        """End the treatment of the broker, and `let_go` of what it keeps back, on the loop's thread."""
        from leveret.faults.plan import treat

        def end() -> None:
            treat(self._engine.faults, None)
            let_go()

        self._engine.before_answer = None
        self._engine.ask(end)

    def call_in_real_time(self, delay_us: int, act: Callable[[], None]) -> None:
        """Call `act` on the loop's thread after `delay_us` microseconds of real time."""
        self.node.liveness.add(self.node.wall_now + delay_us, act)
        # Its timers have changed.
        self._engine.loop.wake()

    @property
    def node(self) -> Node:
        """The state of the broker."""
        return self._engine.node

    @property
    def has_autojump(self) -> bool:
        """Whether time moves by itself."""
        return self._engine.is_jumping

    def _tap(self, kind: str, *fields: object) -> None:
        if self._is_ours:
            with self._engine.lock:
                node = self._engine.node
                if node.hooks.tap is not None:
                    node.hooks.tap((kind, node.now, *fields))

    @property
    def _is_ours(self) -> bool:
        return not self._engine.loop.is_abandoned

    def sync(self) -> None:
        """Pass the barrier, so that what clients sent last is handled, and can fail, before the broker stops."""
        if self._is_ours:
            self._engine.sync()

    @property
    def timeline(self) -> Timeline:
        """What the recorded events show: the one value that all explanations of a test read."""
        from leveret.story.timeline import Timeline

        if not self._is_ours:
            return Timeline()
        with self._engine.lock:
            return self._engine.timeline()

    def events_of(self, node_id: str) -> list[Event]:
        """Return the events since that test began, or all that are left."""
        if not self._is_ours:
            return []
        with self._engine.lock:
            raw_events = self._engine.recorder.raw()
        return [Event(raw) for raw in raw_events[events.began_at(raw_events, node_id) :]]

    def events_after(self, count: int) -> tuple[list[RawEvent], int, bool]:
        """Return the events after the first `count`, how many there are now, and whether none is missing.

        It does not wait for clients.
        """
        recorder = self._engine.recorder
        if not self._is_ours or not recorder.is_on:
            return [], count, False
        with self._engine.lock:
            new, recorded_count = recorder.raw_after(count), recorder.recorded_count
        return new, recorded_count, not (recorder.has_dropped and len(new) < recorded_count - count)

    def ways_out(self, node_id: str) -> list[str]:
        """Return what to do about the errors that clients got since that test began, each line once."""
        from leveret.observe.texts.advice import advice

        refusals = self._refusals(node_id)
        return list(dict.fromkeys(line for it in refusals for line in advice(it, {}, self._engine.handle)))

    def denied_features(self, node_id: str) -> set[str]:
        """Return the deprecated features that clients were denied since that test began."""
        subjects = [it.subject or {} for it in self._refusals(node_id)]
        return {it["feature"] for it in subjects if it.get("problem") == "denied_feature"}

    def _refusals(self, node_id: str) -> list[Event]:
        return [event for event in self.events_of(node_id) if event.kind == events.REFUSED]

    @property
    def is_complete(self) -> bool:
        """Whether the trace shows everything, because no event was dropped and nothing is in progress."""
        if not self._is_ours:
            return False
        with self._engine.lock:
            recorder = self._engine.recorder
            is_idle = not (why_not_idle(self._engine.node) or self._engine.kept_back())
            return recorder.is_on and not recorder.has_dropped and is_idle

    def reading(self, node_id: str) -> Reading | None:
        """Return what happened since that test began, for its page; None if nothing was recorded."""
        if not self._is_ours or not self._engine.recorder.is_on:
            return None
        return self._engine.reading(node_id)

    @property
    def name(self) -> str:
        """The broker in a sentence: "the broker on port 5672"."""
        return self._engine.name

    @property
    def moment(self) -> int:
        """How much has been recorded until now, once what clients have sent is handled."""
        self.sync()
        return self._engine.recorder.recorded_count

    @property
    def recorded_count(self) -> int:
        """How much has been recorded until now. It does not wait for clients."""
        return self._engine.recorder.recorded_count

    def diagnosis(self, node_id: str, asked: Asked, moment: int | None = None) -> Diagnosis | None:
        """Return what went wrong in a test until a moment, or until now, and what else was noticed."""
        if not self._is_ours or not self._engine.recorder.is_on:
            return None
        from leveret.observe.checks.diagnosing import diagnosed
        from leveret.story.ways.inquiry import Ended

        self.sync()
        engine = self._engine
        recorder = engine.recorder
        ended = [Ended(it.name, str(code)) for it in engine.workers if (code := it.end_code) is not None]
        with engine.lock:
            return diagnosed(
                engine.node,
                engine.timeline(),
                engine.judge,
                node_id,
                asked,
                later_count=0 if moment is None else recorder.recorded_count - moment,
                forgotten_count=recorder.recorded_count - len(recorder),
                is_clock_held=engine.clock.is_held,
                ended=ended,
            )

    def take_internal_errors(self) -> list[BaseException]:
        """Return leveret's own errors, those of the test's responders, and of endless time, since the last call."""
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
        """Return what strict checks have found so far and not reported yet."""
        if not self._is_ours:
            return Verdict()
        self._engine.judge.catch_up()
        return self._engine.judge.verdict()

    def excuse(self) -> None:
        """Forget what strict checks have found so far, because the test has failed, or is expected to."""
        if self._is_ours:
            self._engine.judge.catch_up()
            self._engine.judge.forget()

    def report(self, later_count: int = 0) -> str:
        """Return the state of the broker, its refusals, and the last events, but for what came after the failure."""
        if not self._is_ours:
            return f"{self._engine.name}, started by process {self._engine.loop.process}"
        return self._engine.report(later_count=later_count)

    def is_shown_by(self, reports: Iterable[Report]) -> bool:
        """Return whether one of these reports is about this broker."""
        return any(report.broker == self._engine.name for report in reports)
