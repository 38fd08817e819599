"""The diagnosis of a failed test: what went wrong, and what else was noticed.

A cause lies on a way from what the test asked for to what happened: `walk` finds where such a way stops. What strict
checks have found is a cause if it is about a message, a queue or a client on a way; else it was noticed, and no more is
said of it. Causes of a kind that differ in their message only become one, and what explains less is left out beside
what explains more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, cast

from leveret.story.asked import Asked
from leveret.story.causes import Cause, ranked
from leveret.story.entities import NOTABLE_US, Fact, MessageLife, Place
from leveret.story.timeline import Timeline
from leveret.story.ways.inquiry import HiddenState, Inquiry, key
from leveret.story.ways.walk import Walk
from leveret.trace import events
from leveret.trace.events import Event

# The most causes that a diagnosis has, and the most of what else was noticed.
CAUSES_MAX: Final = 3
# From this rank on, a cause is advice.
_ADVICE: Final = 90
# Up to this rank, a finding is about the test's own code, whatever it asked for.
_OF_TEST: Final = 5
# The kinds that say more than others about the same message, or about the same client.
_COVERED: Final = {
    "requeued_often": ("requeued", "redelivered_too_often", "loop", "ack_lost", "held", "not_consumed"),
    "redelivered_too_often": ("loop",),
    "goes_round": ("rejected_to", "held", "not_due", "not_consumed"),
    "reply_to_left": ("unroutable",),
    "refused": ("redeclared_differently", "unseen_channel_error"),
    "died": ("held", "held_back", "given_back"),
    "held_back": ("held",),
    "worker_ended": ("not_consumed",),
    "unroutable": ("return_ignored", "returned"),
    "return_ignored": ("returned",),
    "nothing_came": ("not_consumed", "value"),
    "unbound": ("nothing_came", "value"),
    "taken_with": ("swallowed",),
}
_COVERED_BY: Final = {
    kind: [one for one, others in _COVERED.items() if kind in others] for kind in chain.from_iterable(_COVERED.values())
}


@dataclass(slots=True)
class Diagnosis:
    """What went wrong, the worst first, and what else was noticed: at most three of each."""

    causes: list[Cause] = field(default_factory=list)
    noticed: list[Cause] = field(default_factory=list)


def diagnosis(
    timeline: Timeline,
    asked: Asked,
    found: Iterable[Cause] | None = None,
    state: HiddenState | None = None,
    *,
    began: int = 0,
) -> Diagnosis:
    """Return what went wrong on one broker, as its timeline shows it until the test failed.

    `found` is what its checks have found; without them, the facts alone show which messages are lost. `state` is what
    the broker knows beside its events, and `began` the place at which the test began.
    """
    walk = Walk(timeline, asked, state or HiddenState(), began=began)
    findings = [_completed(walk, cause) for cause in (_lost(walk) if found is None else found)]
    on_way = _Way(walk)
    connected = [cause for cause in findings if asked.is_check or on_way.has(cause)]
    causes = [*connected, *walk.causes()]
    said = {cause.names.get("error") for cause in causes if cause.messages}
    causes = [cause for cause in causes if cause.kind != "died" or cause.messages or cause.names["error"] not in said]
    because = {id(fact.raw) for one in causes if one.because is not None for fact in _facts(one.because)}
    causes = [one for one in causes if one.kind != "refused" or because.isdisjoint(id(it.raw) for it in one.evidence)]
    causes = list(_without_covered(causes))
    noticed = [
        *_values(walk),
        *findings,
        *map(walk.handling.refusal, walk.handling.stopping()),
        *walk.noticed(),
        *_deaths(walk, asked, causes),
    ]
    named = {number for one in causes for number in (*one.messages, *cast("list[int]", one.names.get("others", [])))}
    shown = {id(fact.raw) for one in causes for fact in _facts(one)}
    others = [
        cause
        for cause in noticed
        if named.isdisjoint(cause.messages) and not any(id(fact.raw) in shown for fact in _facts(cause))
    ]
    return Diagnosis(_worst(causes), _worst(_without_covered(others)))


def _worst(causes: Iterable[Cause]) -> list[Cause]:
    return ranked(_alike(cause for cause in causes if cause.rank < _ADVICE))[:CAUSES_MAX]


def _facts(cause: Cause) -> list[Event]:
    """Return what shows a cause, and what shows the one that it follows from."""
    because = [] if cause.because is None else _facts(cause.because)
    return [*cause.evidence, *because]


class _Way:
    """What lies on the ways of what a test asked for."""

    def __init__(self, walk: Walk) -> None:
        self._inquiry: Final = walk.inquiry
        # The names in the code that fills what was compared, and if it is short the queues to which nothing came.
        self._sources_of_text: Final = walk.inquiry.asked.sources
        reached, queues = walk.inquiry.reached, walk.inquiry.timeline.queues.values()
        self._unreached: Final = {one.name for one in queues if one not in reached} if walk.inquiry.is_short else set()
        self._lives: Final = walk.inquiry.timeline.messages
        self._messages: Final = set(walk.roots.messages)
        # Whether messages hold all that the test misses, so that it misses no others.
        missing, held = walk.inquiry.asked.missing, walk.roots.values.values()
        self._is_found: Final = bool(missing) and set(map(key, missing)) <= set(map(key, held))
        starved = self._starved = walk.inquiry.starved
        self._queues: Final = walk.inquiry.queues | {queue.name for queue in starved}
        bindings = walk.inquiry.timeline.bindings
        self._sources: Final = {one.source[1] for one in bindings if one.destination[1] in self._queues} - {""}
        # Who has declared a queue to which no message came.
        self._declarers: Final = {fact.conn for queue in starved for fact in queue.declared} - {None}
        self._places: Final[set[Place]] = {
            copy.queue.place for life in walk.roots.messages.values() for copy in life.copies.values()
        }

    def has(self, cause: Cause) -> bool:
        """Return whether a cause lies on a way."""
        if cause.rank <= _OF_TEST:
            return True
        if self._queues and cause.because is not None and cause.because.kind == "dead_letter_exchange_missing":
            return bool(self._starved)
        if cause.messages:
            return not self._messages.isdisjoint(cause.messages) or (not self._is_found and self._was_meant(cause))
        vhosts = {str(fact.get("vhost") or "/") for fact in cause.evidence}
        return any((vhost, cause.names.get("queue")) in self._places for vhost in vhosts)

    def _was_meant(self, cause: Cause) -> bool:
        """Return whether a message reached no queue and was addressed to one at which the test looked."""
        names = {} if cause.because is None else cause.because.names
        near = {names.get("queue"), *cast("list[str]", names.get("near") or ())}
        if near & (self._queues | self._unreached) or names.get("exchange") in self._sources:
            return True
        queues = cast("list[str]", names.get("queues") or ())
        if self._inquiry.is_short and not self._sources_of_text.isdisjoint(queues):
            return True
        lives = [self._lives[number] for number in cause.messages if number in self._lives]
        publishers = {life.publisher.number for life in lives if life.publisher is not None}
        return not names.get("exchange") and not publishers.isdisjoint(self._declarers)


def _completed(walk: Walk, cause: Cause) -> Cause:
    """Return the cause of a check with what the facts add: who published its message."""
    message = cause.numbers.get("message")
    if message is None:
        return cause
    life = walk.inquiry.timeline.messages.get(message)
    names = {**cause.names, "publisher": None if life is None else walk.inquiry.publisher(life)}
    names.pop("age", None)
    if cause.numbers.get("age", NOTABLE_US) < NOTABLE_US:
        cause = cause._replace(numbers={name: number for name, number in cause.numbers.items() if name != "age"})
    because = cause.because
    if cause.kind == "rejected_into_nothing" and life is not None:
        last = next((copy.deliveries[-1] for copy in life.last_ends if copy.deliveries), None)
        names |= {} if last is None else walk.handling.error_of(last)
    if cause.kind == "unroutable" and life is not None and (request := walk.replies.request_of_lost(life)) is not None:
        asker = walk.inquiry.timeline.name(request.publisher)
        return Cause(
            "reply_to_left",
            {**names, "asker": asker},
            {"message": message, "request": request.number},
            cause.evidence,
            because,
        )
    if cause.kind == "unroutable" and because is not None and because.kind == "no_bindings" and life is not None:
        cause = cause._replace(because=_unbound(walk, life) or because)
    if cause.kind == "unroutable" and because is not None and because.kind == "bound_later":
        return cause._replace(kind="published_before_binding", names={**names, "queues": because.names["queues"]})
    if cause.kind == "unroutable" and because is not None and because.kind == "declared_later":
        return cause._replace(kind="published_before_queue", names={**names, "queue": because.names["queue"]})
    return cause._replace(names=names)


def _unbound(walk: Walk, life: MessageLife) -> Cause | None:
    """Return that the queue was deleted that was bound to the exchange of a message."""
    timeline = walk.inquiry.timeline
    for one in reversed(timeline.bindings):
        is_before = one.until is not None and life.published is not None and one.until.place < life.published.place
        if is_before and one.source == (life.vhost, life.message.exchange):
            deletion = timeline.deletion_text(*one.destination, life.published.at if life.published else None)
            return None if deletion is None else Cause("queue_deleted", {"deletion": deletion})
    return None


_LOST_BY: Final = {
    "rejected": "rejected_into_nothing",
    "delivery_limit": "given_up",
    "maxlen": "overflowed_into_nothing",
    "uncommitted": "uncommitted",
    "expired": "expired_into_nothing",
    events.NO_ROUTE: "unroutable",
}


def _lost(walk: Walk) -> Iterator[Cause]:
    """Yield the messages that were lost, as far as facts alone show it."""
    for life in walk.inquiry.timeline.messages.values():
        lost: list[tuple[Fact, Fact | None, str | None]] = [] if life.lost is None else [(life.lost, None, None)]
        lost += [
            (copy.last, copy.deliveries[-1].settled if copy.deliveries else None, copy.queue.name)
            for copy in life.copies.values()
            if copy.state in events.LOSSES
        ]
        for fact, settled, queue in lost:
            kind = _LOST_BY.get(str(events.reason_of(fact.kind, fact.get("reason"))))
            if kind is not None:
                by = None if settled is None else walk.inquiry.timeline.name(walk.inquiry.timeline.by(settled))
                names = {"queue": queue, "by": by, "publisher": walk.inquiry.publisher(life)}
                evidence = (fact,) if settled is None else (settled, fact)
                yield Cause(kind, names, {"message": life.number}, evidence)


def _deaths(walk: Walk, asked: Asked, causes: Iterable[Cause]) -> Iterator[Cause]:
    """Yield what died and is no cause."""
    all_causes = [*causes, *(cause.because for cause in causes if cause.because is not None)]
    named = {cause.names.get(name) for cause in all_causes for name in ("what", "error")}
    for death in asked.deaths:
        if death.what not in named and death.error not in named:
            yield Cause("died", {"what": death.what, "error": death.error, "line": death.line})


def _values(walk: Walk) -> Iterator[Cause]:
    """Yield where the values are that the test missed, and what became of their messages."""
    for number, value in walk.roots.values.items():
        yield _value(walk.inquiry, value, walk.roots.messages[number])


def _value(inquiry: Inquiry, value: object, life: MessageLife) -> Cause:
    last = next(iter(life.last_ends), None)
    if last is None:
        return inquiry.say("value", life, *life.facts[:1], value=value)
    holder = inquiry.name(last.deliveries[-1].connection) if last.deliveries else None
    names = {"state": last.state, "queue": last.queue.name, "holder": holder, "reason": last.last.get("reason")}
    return inquiry.say("value", last, value=value, **names)


def _without_covered(causes: list[Cause]) -> Iterator[Cause]:
    """Yield the causes without those of which another says more, which take over what these follow from.

    One covers another that is about a message of its own, or if both are about none, about a client of its own.
    """
    subjects = [_subjects(cause) for cause in causes]
    known: dict[tuple[str, object], list[int]] = {}
    for place, cause in enumerate(causes):
        for subject in subjects[place]:
            known.setdefault((cause.kind, subject), []).append(place)
    for place, cause in enumerate(causes):
        if not any((kind, subject) in known for kind in _COVERED_BY.get(cause.kind, ()) for subject in subjects[place]):
            alike = (known.get((kind, it), ()) for kind in _COVERED.get(cause.kind, ()) for it in subjects[place])
            covered = [causes[other].because for other in sorted(chain.from_iterable(alike)) if causes[other].because]
            yield cause._replace(because=covered[0]) if covered and cause.because is None else cause


def _subjects(cause: Cause) -> list[object]:
    """Return what a cause is about: numbers of messages, or the connections of one that is about none."""
    if messages := cause.messages:
        return list(messages)
    return [("conn", conn) for conn in {fact.get("conn") for fact in cause.evidence} - {None}]


def _alike(causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes with those that differ only in their message as one."""
    groups: dict[str, list[Cause]] = {}
    for cause in causes:
        numbers = {name: number for name, number in cause.numbers.items() if name not in ("message", "age")}
        groups.setdefault(repr((cause.kind, cause.names, numbers, cause.because)), []).append(cause)
    return [_joined(known) if len(known) > 1 else known[0] for known in groups.values()]


def _joined(causes: list[Cause]) -> Cause:
    messages = list(dict.fromkeys(number for cause in causes for number in cause.messages))
    evidence = tuple(fact for cause in causes for fact in cause.evidence)
    more: Mapping[str, object] = {"alike": messages} if messages else {}
    return causes[0]._replace(names={**causes[0].names, **more}, evidence=evidence)
