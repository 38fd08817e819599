"""One run of a test: messages change on their way to consumers, and what follows is watched.

Only the bytes that a consumer gets change. The broker's records, and so the assertions of the test, keep the message as
it was published. A run ends as soon as a difference is certain, or once nothing happens any more: a test may wait for
seconds for what will not come. Then its process has done its last run.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

import pytest

from leveret.observe.calls.callers import raising_line, standing_line
from leveret.observe.calls.errors import errors_seen
from leveret.story.facts import CountedFact, Facts
from leveret.trace.shapes.leaves import Path, parsed
from leveret.trials.watchdog import Watchdog
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.contract.observing import name_pattern
from pytest_leveret.needs.bodies import FieldChange, MessageKind, changed, fields_of, type_of
from pytest_leveret.needs.effects import (
    BREAKING,
    ERROR,
    TEST,
    Difference,
    Effects,
    Expected,
    facts_of,
    text_of,
)
from pytest_leveret.needs.reading import noted_reads
from pytest_leveret.rehearsals.fingerprint import normal
from pytest_leveret.trials.processes import serve_session
from pytest_leveret.trials.runner import Trial, run

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from leveret import Broker
    from leveret.core.model.message import Message
    from leveret.core.model.vhost import VirtualHost
    from leveret.faults import Occasion

_TICK_S: Final = 0.01
# A tick that takes longer shows that other processes have the machine.
_LATE_S: Final = 0.03
# For so many ticks nothing happens at the end of a run; for so many at the end of a plain run with nothing in flight.
_PLAIN_TICKS: Final = 15
_IDLE_TICKS: Final = 4
# A run with a change is over once it is quiet for so many times as long as the plain runs ever were, and for so many
# ticks more: less if it has shown something already that plain runs did not.
_PATIENCE: Final = 3
_QUIET_TICKS: Final = 40
_OTHER_TICKS: Final = 10
# What follows a difference by itself, such as the log of an error, may take so long.
_GRACE_TICKS: Final = 5
_ERROR_MAX: Final = 80
# How long a test that was interrupted may take to end, before it is interrupted again, and to end its fixtures too.
_AGAIN_S: Final = 1.5
_END_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class SurveyJob:
    """A test to run: as it is, twice, or once with changes."""

    test: str
    changes: tuple[FieldChange, ...] = ()
    expected: Expected | None = None
    # Whether its process does nothing else before and after, because the test leaves something behind.
    is_alone: bool = False
    # Whether to note which fields the code looks up.
    is_reading: bool = False


@dataclass(slots=True)
class SurveyOutcome:
    """What became of a job."""

    # Of one run, or of the two plain ones.
    effects: list[Effects] = field(default_factory=list)
    # The fields of the messages that consumers received, by kind, each with the types of its values.
    fields: dict[MessageKind, dict[Path, set[str]]] = field(default_factory=dict)
    # The names of the clients that received them.
    clients: dict[MessageKind, set[str]] = field(default_factory=dict)
    # Whether a broker of leveret's fixtures served the test.
    has_broker: bool = False
    # How many messages had no JSON body.
    unread_count: int = 0
    applied: set[FieldChange] = field(default_factory=set)
    # The fields that the code looked up.
    reads: dict[MessageKind, set[Path]] = field(default_factory=dict)
    # What the plain test failed with.
    error: str = ""
    is_skipped: bool = False
    # The modules of leveret that it imported: the next processes start with them.
    modules: list[str] = field(default_factory=list)


class _Quiet:
    """How long nothing has happened, in ticks. A tick in which the machine had no time for this process is none."""

    def __init__(self, now: Callable[[], int]) -> None:
        """`now` returns a number that is another one once something has happened."""
        self.ticks = 0
        self._now: Final = now
        self._moment = -1
        self._pause: Final = threading.Event()

    def wait(self) -> None:
        """Let a tick pass."""
        began = monotonic()
        self._pause.wait(_TICK_S)
        moment = self._now()
        if moment != self._moment:
            self._moment, self.ticks = moment, 0
        else:
            self.ticks += monotonic() - began < _LATE_S


class ChangedRun(Trial):
    """One run while it goes on."""

    def __init__(
        self, item: pytest.Item, job: SurveyJob, outcome: SurveyOutcome, reply: Callable[[SurveyOutcome], None]
    ) -> None:
        self.outcome: Final = outcome
        self._item: Final = item
        self._job: Final = job
        self._reply: Final = reply
        self._effects: Final = Effects()
        self._brokers: Final[list[Broker]] = []
        self._errors: Final[list[CountedFact]] = []
        self._has_finished = False
        self._dog: Final = Watchdog(self._look, self._cut, (0, _AGAIN_S))
        self._bodies: Final[dict[str, tuple[MessageKind, dict[str, object]]]] = {}
        self._thread: Final = threading.get_ident()
        # Bodies before their change, by the text of the changed ones, and where messages were published to, by broker
        # and number.
        self._originals: Final[dict[str, object]] = {}
        self._places: Final[dict[tuple[VirtualHost, int], tuple[str, str]]] = {}

    @property
    def is_cut(self) -> bool:
        """Whether the run was ended early. Its outcome was sent then."""
        return self._dog.has_bitten

    def play(self) -> None:
        """Run the test."""
        item = self._item
        item.session._setupstate.teardown_exact(item)
        reads = noted_reads(self._bodies, self.outcome.reads) if self._job.is_reading else nullcontext()
        with errors_seen(self._note_logged, lambda ended: self._note_error(ended.exc_value)):
            try:
                with reads:
                    run(item, self, self._dog)
            finally:
                self.finish()
                for broker in self._brokers:
                    harness_of(broker).end_treatment()

    def watch(self, broker: Broker) -> None:
        """Change what this broker delivers."""
        from leveret.faults.plan import Treatment

        self._brokers.append(broker)
        self.outcome.has_broker = True
        harness_of(broker).treat(Treatment("leveret needs", self._on_occasion))

    def _note_logged(self, record: logging.LogRecord) -> None:
        if record.exc_info and isinstance(record.exc_info[1], Exception):
            self._note_error(record.exc_info[1])
        elif record.levelno >= logging.ERROR:
            self._errors.append(CountedFact(ERROR, "", value=normal(record.getMessage().splitlines()[0][:200])))

    # What passes, on the broker's thread.

    def _on_occasion(self, occasion: Occasion) -> bool:
        is_delivery = occasion.point == "deliver" or occasion.on == "basic.get-ok"
        connection, message = occasion.connection, occasion.source
        if not is_delivery or connection is None or not connection.is_client or message is None:
            return False
        value = parsed(message.body)
        if value is None:
            self.outcome.unread_count += not self._job.changes
            return False
        kind = _kind_of(occasion, message, self._places.setdefault((connection.vhost, message.id), _place_of(message)))
        # The lines that may have opened the connection; code that the test calls is not the test.
        opener = connection.opener
        openers = [] if opener is None else [line.path for line in (opener, *opener.others)]
        if kind.queue.startswith("amq.gen") and any(path.endswith(self._item.path.name) for path in openers):
            # The reply that the test itself has asked for.
            return False
        clients = self.outcome.clients.setdefault(kind, set())
        if "connection_name" in connection.client_properties:
            clients.add(normal(connection.client_name))
        headers = {} if message.properties.headers is None else message.properties.headers.to_python()
        if self._job.is_reading:
            self._bodies[message.body.decode()] = (kind, headers)
        known = self.outcome.fields.setdefault(kind, {})
        for path, each in fields_of(value, headers).items():
            known.setdefault(path, set()).add(type_of(each))
        body, applied = changed(message.body, [it for it in self._job.changes if it.kind == kind])
        if not applied:
            return False
        self.outcome.applied.update(applied)
        # A message that was passed on with its change is changed once more.
        original = self._originals.get(text_of(value), value)
        self._originals.setdefault(text_of(parsed(body)), original)
        _send(occasion, message, body)
        return True

    # How it goes, on a thread of its own.

    def _look(self, over: threading.Event) -> bool:
        quiet, decided, expected = _Quiet(self._now), 0, self._job.expected
        difference = Difference([], {})
        while not over.is_set():
            quiet.wait()
            self._effects.quiet_ticks = max(self._effects.quiet_ticks, quiet.ticks)
            if expected is None:
                continue
            if quiet.ticks == 0 and not decided:
                difference = expected.difference(self._facts())
            decided += decided > 0 or difference.is_certain
            # A value that is another one will stay so, and what the test waits for may never come.
            patience = _PATIENCE * expected.quiet_ticks + (_OTHER_TICKS if difference.more else _QUIET_TICKS)
            if decided > _GRACE_TICKS or (self._brokers and quiet.ticks > patience):
                return True
        return False

    def _now(self) -> int:
        return sum(harness_of(broker).recorded_count for broker in self._brokers) + len(self._errors)

    def _facts(self) -> Facts:
        facts = Facts(self._errors)
        for broker in self._brokers:
            facts.update(facts_of(harness_of(broker).events_of(self._item.nodeid), self._originals))
        return facts

    def _cut(self) -> None:
        """Report what there is, and begin to end the test, and with it this process."""
        self._effects.facts = self._facts()
        if not any(fact.what in BREAKING for fact in self._effects.facts):
            line = standing_line(self._thread)
            self._effects.facts[CountedFact(TEST, "", value=f"the test waits at {line}" if line else "it hangs")] += 1
        self.outcome.effects.append(self._effects)
        self._reply(self.outcome)
        backup = threading.Timer(_END_S, os._exit, (0,))
        backup.daemon = True
        backup.start()
        for broker in self._brokers:
            broker.stop()

    # How it ends, on the test's thread.

    def note(self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
        """Note what the test failed with, until it is torn down, and whether it was skipped."""
        if report.failed and call.when != "teardown" and call.excinfo is not None:
            self._note_failure(call.excinfo.value)
        if report.skipped:
            self.outcome.is_skipped = True

    def _note_failure(self, error: BaseException) -> None:
        if self._job.expected is None:
            self.outcome.error = _text_of(error)
        elif isinstance(error, AssertionError | TimeoutError):
            self._errors.append(CountedFact(TEST, "", value=f"the test fails: {_text_of(error)}"))
        else:
            self._note_error(error)

    def finish(self) -> None:
        """Wait until nothing more happens, and take the effects, before fixtures end."""
        expected, quiet = self._job.expected, _Quiet(self._now)
        while not (self._has_finished or self.is_cut) and quiet.ticks < _PLAIN_TICKS:
            if not expected.differs_from(self._facts()) if expected is not None else self._is_idle(quiet.ticks):
                break
            quiet.wait()
        if self._dog.call_off() and not self._has_finished:
            self._has_finished = True
            self._effects.facts = self._facts()
            self.outcome.effects.append(self._effects)

    def _is_idle(self, quiet_ticks: int) -> bool:
        """Return whether a plain run is over before its time, because nothing is in flight."""
        return quiet_ticks >= _IDLE_TICKS and all(harness_of(broker).is_complete for broker in self._brokers)

    def _note_error(self, error: BaseException | None) -> None:
        fact = CountedFact(ERROR, "", value=_text_of(error)) if isinstance(error, Exception) else None
        if fact is not None and fact not in self._errors:
            self._errors.append(fact)


def _play(
    item: pytest.Item, job: SurveyJob, reply: Callable[[SurveyOutcome], None]
) -> tuple[SurveyOutcome, bool] | None:
    """Do a job, and return its outcome and whether this process is spent; None if `reply` got it already."""
    outcome = SurveyOutcome()
    for turn in range(1 if job.expected is not None else 2):
        trial = ChangedRun(item, job, outcome, reply)
        trial.play()
        if trial.is_cut:
            return None
        if turn and outcome.error:
            # It passes only once in a process, so each of its runs has one of its own.
            outcome.error = ""
            outcome.effects[-1].facts[CountedFact(TEST, "", value="the test fails")] += 1
            return outcome, True
        if job.is_alone or outcome.error:
            return outcome, True
    if job.expected is None:
        outcome.modules = [name for name in sys.modules if name.startswith("leveret.")]
        return outcome, False
    return outcome, job.expected.differs_from(outcome.effects[-1].facts)


def serve(session: pytest.Session, connection: Connection) -> None:
    """Run the tests of a session as the other side of the connection asks, until it hangs up."""
    items = {item.nodeid: item for item in session.items}

    def do(job: SurveyJob) -> tuple[SurveyOutcome, bool] | None:
        return _play(items[job.test], job, lambda outcome: connection.send((outcome, True)))

    # A run may be cut when it has just ended.
    with suppress(KeyboardInterrupt):
        serve_session(session, connection, do)


def _place_of(message: Message) -> tuple[str, str]:
    """Return where a message was published to that may have died on its way, and comes for the first time."""
    own = [death for death in message.deaths if death.published is None]
    return (own[-1].exchange, own[-1].routing_keys[0]) if own else (message.exchange, message.routing_key)


def _kind_of(occasion: Occasion, message: Message, place: tuple[str, str]) -> MessageKind:
    from leveret.trace.shapes import message_name

    names = (*place, occasion.queue_name or _queue_of_get(occasion))
    exchange, routing_key, queue = map(name_pattern, names)
    name = message_name(message.body, message.properties.to_python())
    return MessageKind(exchange, routing_key, queue, name, occasion.vhost or "/")


def _queue_of_get(occasion: Occasion) -> str:
    """Return the queue of the delivery that a get-ok answers with."""
    channel, tag = occasion.channel, getattr(occasion.method, "delivery_tag", 0)
    delivery = None if channel is None else channel.unacked.get(tag)
    return "" if delivery is None else delivery.queue.name


def _send(occasion: Occasion, message: Message, body: bytes) -> None:
    """Send a message with another body. The broker goes on as if it had sent the message."""
    from leveret.core.model.message import Message
    from leveret.core.protocol.delivery import with_content
    from leveret.core.wire.frames import method_frame

    other = Message.from_head(message.id, message.head, body)
    channel, connection = occasion.channel, occasion.connection
    assert channel is not None
    assert connection is not None
    if occasion.point == "reply":
        frame = method_frame(channel.number, occasion.method)  # type: ignore[arg-type]
        connection.send(with_content(frame, other, channel.number, connection.frame_max))
        return
    consumer, entry = occasion.subscription, occasion.entry
    assert consumer is not None
    assert entry is not None
    octets = consumer.queue.delivered_octets(entry, is_get=False) if consumer.edits_deliveries else None
    occasion.proceed_silently()
    encoder = channel.encoders[consumer.tag]
    connection.send_pieces(encoder.encode(channel.last_tag, entry.redelivered, other, octets))


def _text_of(error: BaseException) -> str:
    """Return an error in one line, with the line of the user's code that raised it."""
    # pytest explains an assertion in further lines.
    message = str(error).partition("\n")[0] if isinstance(error, AssertionError) else str(error)
    text = normal(" ".join(f"{type(error).__name__}: {message}".split()))
    line = raising_line(error)
    return f"{text[:_ERROR_MAX]} at {line}" if line else text[:_ERROR_MAX]
