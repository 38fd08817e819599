"""The effects of one run of a test: what became of messages, what was published, which errors came, how the test ended.

Effects are counted facts. Those of plain runs say what is to be expected, and which values differ from run to run by
themselves: these do not count. A fact of another run that is not expected, or an expected one that is missing, is a
difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from leveret.story.facts import CountedFact, Facts, is_of_now, noise_of, without_noise
from leveret.story.words import done
from leveret.trace import events
from leveret.trace.events import Event, PlainValue, TracedMessage
from leveret.trace.shapes import OF_BROKER
from leveret.trace.shapes.leaves import leaves_of, parsed
from pytest_leveret.rehearsals.fingerprint import normal

# A message of a client, one that a client or the test sent of its own accord, a field of one, a delivery that
# is never settled, an error of the code under test, and how the test ended.
PUBLISHED: Final = events.PUBLISHED
SENT: Final = "sent"
OPEN: Final = "never settled"
FIELD: Final = "field"
ERROR: Final = "error"
TEST: Final = "test"
# What ends the handling of a message, and which facts show that it is not handled as before.
_SETTLED: Final = (*events.SETTLING, *events.REQUEUES, *events.DEATHS, events.DROPPED)
BREAKING: Final = (*_SETTLED[1:], events.REFUSED, events.CONN_CLOSE, ERROR)
# Nothing changed; something changed in what was published or asserted; it was not handled as before.
NOTHING: Final = "nothing"
CHANGES: Final = "changes"
BREAKS: Final = "breaks"
SEVERITY: Final = (NOTHING, CHANGES, BREAKS)
_ISO_MIN: Final = len("2026-01-01T00:00")


def facts_of(trace: Iterable[Event], originals: Mapping[str, object]) -> Facts:
    """Return the facts of a broker's events.

    `originals` are bodies before their change, by what `text_of` returns of the changed ones. A consumer that publishes
    what it got, as for a retry, has published what it would have without the change.
    """
    facts, consuming, open_copies = Facts(), set[int | None](), dict[int | None, str]()
    for event in trace:
        facts.update(_facts(event, consuming, originals))
        if event.kind in events.DELIVERIES:
            consuming.add(event.conn)
            open_copies[event.copy] = normal(event.queue or "")
        elif event.kind in _SETTLED:
            open_copies.pop(event.copy, None)
    facts.update(CountedFact(OPEN, queue) for queue in open_copies.values())
    return facts


def _facts(event: Event, consuming: set[int | None], originals: Mapping[str, object]) -> Iterator[CountedFact]:
    kind = event.kind
    if kind in _SETTLED:
        reason = cast("str | None", event.get("reason"))
        if kind != events.ACKED or reason is None:
            yield CountedFact(kind, normal(event.queue or event.message.exchange), value=reason or "")
    elif kind == events.PUBLISHED:
        where = normal(f"{event.message.exchange} {event.message.routing_key}".strip())
        if event.conn is None or event.conn not in consuming:
            yield CountedFact(SENT, where)
        if event.conn is not None:
            yield CountedFact(PUBLISHED, where)
            yield from _fields_of(event.message, where, originals)
    elif kind == events.REFUSED:
        yield CountedFact(kind, normal(event.client), value=normal(event.text))
    elif kind == events.CONN_CLOSE and event.reason is not None and not event.is_shutdown:
        yield CountedFact(kind, "", value=normal(event.reason))


def text_of(body: object) -> str:
    """Return a text that bodies of the same value have in common."""
    return json.dumps(body, sort_keys=True)


def _fields_of(message: TracedMessage, where: str, originals: Mapping[str, object]) -> Iterator[CountedFact]:
    body = parsed(message.body)
    if originals and body is not None:
        body = originals.get(text_of(body), body)
    if body is None:
        yield CountedFact(FIELD, where, "body", repr(message.body))
    else:
        yield from (CountedFact(FIELD, where, path, _value_text(value)) for path, value in leaves_of(body))
    for name, value in message.properties.to_python().items():
        plain = value.to_python() if isinstance(value, PlainValue) else value
        items = plain.items() if isinstance(plain, dict) else [("", plain)]
        # Their times and counts are the broker's, also if a client publishes a message with all headers that it got.
        items = [(key, item) for key, item in items if not OF_BROKER.fullmatch(key)]
        yield from (CountedFact(FIELD, where, f"{name} {key}".strip(), _value_text(item)) for key, item in items)


def _value_text(value: object) -> str:
    """Return a value as text; an instant of today is only that, because plain runs may share a second."""
    # A date without a time is compared: plain runs have the same one.
    if not (isinstance(value, str) and len(value) < _ISO_MIN) and is_of_now(value):
        return "now"
    return json.dumps(value, default=repr)


@dataclass(slots=True)
class Effects:
    """What one run showed."""

    facts: Facts = field(default_factory=Facts)
    # The longest time in which nothing happened, in ticks.
    quiet_ticks: int = 0


@dataclass(slots=True)
class Expected:
    """What plain runs of a test showed."""

    least: Facts
    most: Facts
    # The fields whose values differ between plain runs.
    noise: set[CountedFact]
    quiet_ticks: int

    def difference(self, facts: Facts) -> Difference:
        """Return what the facts of another run have more, and less."""
        seen = without_noise(facts, self.noise)
        more = [fact for fact, count in seen.items() if count > self.most[fact]]
        less = {fact: seen[fact] for fact, count in self.least.items() if seen[fact] < count}
        return Difference(more, less)

    def differs_from(self, facts: Facts) -> bool:
        """Return whether another run showed anything else."""
        return self.difference(facts).severity != NOTHING


def expected_of(runs: Sequence[Effects]) -> Expected:
    """Return what to expect after these plain runs."""
    noise = {fact for fact in noise_of([run.facts for run in runs]) if fact.what == FIELD}
    expected = Expected(Facts(), Facts(), noise, max(run.quiet_ticks for run in runs))
    plain = [without_noise(run.facts, noise) for run in runs]
    for fact in set().union(*plain):
        expected.least[fact] = min(each[fact] for each in plain)
        expected.most[fact] = max(each[fact] for each in plain)
    return expected


@dataclass(slots=True)
class Difference:
    """What one run has more, and less, than is expected."""

    more: list[CountedFact]
    # With how many there are nevertheless.
    less: dict[CountedFact, int]

    @property
    def _lost(self) -> list[CountedFact]:
        """What a consumer did not do. If the test has ended early, it may have had no occasion."""
        lost = [fact for fact in self.less if fact.what in (events.ACKED, PUBLISHED)]
        if any(fact.what == SENT for fact in self.less):
            return [fact for fact in lost if fact.what == PUBLISHED and not self.less[fact]]
        return lost

    @property
    def is_certain(self) -> bool:
        """Whether nothing that may still happen makes it better."""
        return any(fact.what in BREAKING for fact in self.more)

    @property
    def severity(self) -> str:
        """How bad it is: NOTHING, CHANGES or BREAKS."""
        if self._lost or any(fact.what in (*BREAKING, OPEN) for fact in self.more):
            return BREAKS
        return CHANGES if self.more or self.less else NOTHING

    @property
    def texts(self) -> list[str]:
        """What it is in words, the weightiest first."""
        errors = [fact.value for fact in self.more if fact.what == ERROR]
        ends = [done(fact.what) for fact in self.more if fact.what in (*BREAKING, OPEN)]
        lost = [f"nothing published to {fact.where}" for fact in self._lost if fact.what == PUBLISHED]
        lost += ["not acked" for fact in self._lost if fact.what == events.ACKED]
        more = [f"also published to {fact.where}" for fact in self.more if fact.what == PUBLISHED]
        fields = [f"other {fact.path} to {fact.where}" for fact in (*self.more, *self.less) if fact.what == FIELD]
        tests = [fact.value for fact in self.more if fact.what == TEST]
        return [*dict.fromkeys([*errors, *(it for it in ends if it != ERROR), *lost, *more, *fields, *tests])]
