"""The search behind an assertion: which of the things that happened are the ones a test means.

A search is fed raw events in order, as often as there are new ones, and keeps what it needs; so waiting for something
costs each event one look. What counts as what is the table `HAPPENINGS`. A dead letter is followed to the queues it
arrived in, and an expired copy is dropped unless it was dead-lettered. Where a test begins in the trace, what happened
before counts no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from leveret.observe.matching import Matcher, is_equal, value_distance
from leveret.observe.message_view import MessageView
from leveret.trace import events
from leveret.trace.events import Event

if TYPE_CHECKING:
    from leveret.core.model.message import Message
    from leveret.trace.events import RawEvent

Place = Literal["exchange", "queue", "either"]

# The reason of an `acked` that no client sent.
NO_ACK: Final = "no_ack"
_DELIVERED_COPY: Final = {kind: events.POSITIONS[kind]["copy"] for kind in events.DELIVERIES}


class Happening(NamedTuple):
    """One row: the event kinds that count, and what the assertion's first argument names."""

    name: str
    kinds: tuple[str, ...]
    place: Place
    # The kind of later events that say more about the same copy.
    sequel: str | None = None
    # What is said beside the name, where that alone could mean something else.
    by: str = ""

    @property
    def words(self) -> str:
        """Its name in a sentence: "dead-lettered"."""
        return self.name.replace("_", "-") + self.by


_ROWS: Final = (
    Happening("published", (events.PUBLISHED,), "exchange"),
    Happening("returned", (events.RETURNED,), "exchange"),
    Happening("confirmed", (events.CONFIRMED,), "exchange"),
    Happening("nacked", (events.NACKED_CONFIRM,), "exchange", by=" by the broker"),
    Happening("delivered", events.DELIVERIES, "queue"),
    Happening("acked", (events.ACKED,), "queue"),
    Happening("requeued", (events.REQUEUED,), "queue"),
    Happening("dead_lettered", (events.DEAD_LETTERED,), "queue", sequel=events.ENQUEUED),
    Happening("dropped", (events.DROPPED, events.EXPIRED), "either", sequel=events.DEAD_LETTERED),
)
HAPPENINGS: Final = {row.name: row for row in _ROWS}


class Question(NamedTuple):
    """What a test asks: which happening, where, to which messages."""

    # The call as it was written, for the failure text.
    call: str
    happening: Happening
    vhost: str
    # None is anywhere.
    place: str | None
    matcher: Matcher
    # None is any.
    reason: object = None
    # The queue a dead letter arrived in.
    to: str | None = None
    # None is at least once.
    times: int | None = None


class Occurrence:
    """One thing that happened, and the message it happened to."""

    __slots__ = ("arrivals", "event", "is_void", "is_wanted", "message", "place", "place_kind")

    def __init__(self, event: Event, message: MessageView, place_kind: str, place: str) -> None:
        self.event = event
        self.message = message
        # "queue" or "exchange", and its name, as the question asks for it.
        self.place_kind = place_kind
        self.place = place
        # Whether it is what the question means, as far as its own event can tell.
        self.is_wanted = False
        # An expired copy that was dead-lettered after all.
        self.is_void = False
        # The queues a dead letter arrived in, with the message as it arrived.
        self.arrivals: dict[str, Message] = {}

    @property
    def reason(self) -> object:
        """Why it happened, where a reason is known."""
        return reason_of(self.event)


def reason_of(event: Event) -> object:
    """Why something happened; why a copy ended, in the words of x-death: rejected, expired, maxlen."""
    if event.kind == events.EXPIRED:
        return "expired"
    reason = event.get("reason")
    is_given_up = event.kind == events.DROPPED and reason == events.NO_ROUTE and event.copy is not None
    return "rejected" if is_given_up else reason


class Search:
    """Everything of the kind a question asks for, sorted into what it means and what it does not."""

    __slots__ = ("_by_copy", "_deliveries", "_earlier", "_occurrences", "_test", "last_seen", "question")

    def __init__(self, question: Question) -> None:
        self.question: Final = question
        # The newest event it was fed.
        self.last_seen: RawEvent | None = None
        self._occurrences: list[Occurrence] = []
        # The test in which they occurred, None before the first, and those of the tests before it.
        self._test: str | None = None
        self._earlier: Final[list[tuple[str | None, list[Occurrence]]]] = []
        # The latest occurrence, and the latest delivery, of a copy.
        self._by_copy: Final[dict[object, Occurrence]] = {}
        self._deliveries: Final[dict[object, Event]] = {}

    def feed(self, new_events: Iterable[RawEvent]) -> None:
        """Look at the events that came since the last time, in order."""
        kinds = self.question.happening.kinds
        sequel = self.question.happening.sequel
        for raw in new_events:
            kind = raw[0]
            if kind == events.DELIVERED or kind == events.GOT:
                self._deliveries[raw[_DELIVERED_COPY[kind]]] = Event(raw)
            if kind in kinds:
                self._add(Event(raw))
            elif kind == sequel:
                self._add_sequel(Event(raw))
            elif kind == events.TEST_START:
                self._begin(Event(raw).test)
            self.last_seen = raw

    def found(self) -> list[Occurrence]:
        """What the question means, in order."""
        return [occurrence for occurrence in self._occurrences if self._is_found(occurrence)]

    @property
    def has_seen_start(self) -> bool:
        """Whether the test began within what it was fed."""
        return self._test is not None

    def found_earlier(self) -> dict[str | None, int]:
        """How often the same occurred in tests before this one, by test; None is before the first."""
        counts: dict[str | None, int] = {}
        for test, occurrences in self._earlier:
            counts[test] = counts.get(test, 0) + sum(map(self._is_found, occurrences))
        return {test: count for test, count in counts.items() if count}

    def near_misses(self) -> list[Occurrence]:
        """What it does not mean, nearest first."""
        others = [one for one in self._occurrences if not one.is_void and not self._is_found(one)]
        return sorted(others, key=self._distance)

    def view(self, occurrence: Occurrence) -> MessageView:
        """The message to hand to the test: a dead letter as it arrived, where it arrived."""
        arrivals, to = occurrence.arrivals, self.question.to
        if not arrivals:
            return occurrence.message
        return MessageView(arrivals[to] if to in arrivals else next(iter(arrivals.values())))

    def why_not(self, occurrence: Occurrence) -> list[str]:
        """What differs from what was asked for, a sentence each."""
        question = self.question
        differences = []
        if not self._is_at_place(occurrence):
            differences.append(f"{occurrence.place_kind} {occurrence.place!r} is not {question.place!r}")
        if not self._has_reason(occurrence):
            differences.append(f"reason {occurrence.reason!r} is not {question.reason!r}")
        if self._is_elsewhere(occurrence):
            arrived = ", ".join(map(repr, occurrence.arrivals)) or "no queue"
            differences.append(f"it arrived in {arrived}, not in {question.to!r}")
        return differences + question.matcher.why_not(occurrence.message)

    def _begin(self, test: str) -> None:
        self._earlier.append((self._test, self._occurrences))
        self._test, self._occurrences = test, []

    def _add(self, event: Event) -> None:
        if event.vhost != self.question.vhost or (event.kind == events.ACKED and event.reason == NO_ACK):
            return
        message = self._view(event)
        queue = cast("str | None", event.get("queue"))
        if queue is None or self.question.happening.place == "exchange":
            occurrence = Occurrence(event, message, "exchange", message.exchange)
        else:
            occurrence = Occurrence(event, message, "queue", queue)
        occurrence.is_wanted = (
            self._is_at_place(occurrence)
            and self._has_reason(occurrence)
            and self.question.matcher.matches(occurrence.message)
        )
        self._occurrences.append(occurrence)
        self._by_copy[event.get("copy")] = occurrence

    def _add_sequel(self, event: Event) -> None:
        if event.kind == events.ENQUEUED:
            died = self._by_copy.get(event.src_copy) if event.src_copy is not None else None
            if died is not None and event.queue is not None:
                died.arrivals[event.queue] = cast("Message", event.message)
        elif (expired := self._by_copy.get(event.copy)) is not None:
            expired.is_void = True

    def _view(self, event: Event) -> MessageView:
        message = cast("Message", event.message)
        copy = event.get("copy")
        delivery = self._deliveries.get(copy) if copy is not None else None
        if delivery is None:
            return MessageView(message)
        return MessageView(
            message,
            redelivered=delivery.redelivered,
            delivery_count=delivery.count,
            consumer_tag=cast("str | None", delivery.get("consumer")),
            delivered_at=delivery.at,
        )

    def _is_found(self, occurrence: Occurrence) -> bool:
        return occurrence.is_wanted and not occurrence.is_void and not self._is_elsewhere(occurrence)

    def _is_at_place(self, occurrence: Occurrence) -> bool:
        return self.question.place is None or self.question.place == occurrence.place

    def _has_reason(self, occurrence: Occurrence) -> bool:
        return self.question.reason is None or is_equal(self.question.reason, occurrence.reason)

    def _is_elsewhere(self, occurrence: Occurrence) -> bool:
        return self.question.to is not None and self.question.to not in occurrence.arrivals

    def _distance(self, occurrence: Occurrence) -> float:
        distance = self.question.matcher.distance(occurrence.message)
        if not self._is_at_place(occurrence):
            distance += value_distance(self.question.place, occurrence.place)
        return distance + (not self._has_reason(occurrence)) + self._is_elsewhere(occurrence)
