"""The search behind an assertion: it finds the events in the trace that the assertion asks for.

Feed a search the raw events in order, as they come. It keeps what it needs, so a wait looks at each event once. The
table `HAPPENINGS` says which events count for which assertion. A search follows a dead letter to the queues it arrived
in. An expired copy counts as dropped unless it was dead-lettered. When a test begins in the trace, earlier events stop
counting.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, cast

from leveret.core.model.message import Message
from leveret.observe.assertions.matching import Matcher, is_equal
from leveret.observe.views.message_view import MessageView
from leveret.trace import events
from leveret.trace.events import Event, RawEvent

Place = Literal["exchange", "queue", "either"]

# The reasons of a publish in a transaction that ended without a commit.
NOT_COMMITTED: Final = ("rolled_back", "uncommitted")
_DELIVERED_COPY: Final = {kind: events.POSITIONS[kind]["copy"] for kind in events.DELIVERIES}


class Happening(NamedTuple):
    """A row of the table: the event kinds that count, and what the first argument of the assertion names."""

    name: str
    kinds: tuple[str, ...]
    place: Place
    # The kinds of later events that add to what is known of the same message or copy.
    sequel: tuple[str, ...] = ()
    # Added to the name in a sentence if the name alone is ambiguous.
    by: str = ""

    @property
    def words(self) -> str:
        """The name in a sentence: "dead-lettered"."""
        return self.name.replace("_", "-") + self.by

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons that events of these kinds can have."""
        own = (kind for kind in self.kinds if kind in events.WITHOUT_REASON)
        return (*(reason for kind in self.kinds for reason in events.TABLE[kind].reasons), *own)


_ROWS: Final = (
    Happening("published", (events.PUBLISHED,), "exchange", sequel=events.LOSSES),
    *(Happening(kind, (kind,), "exchange") for kind in events.RETURNS),
    Happening("confirmed", (events.CONFIRMED,), "exchange"),
    Happening("nacked", (events.NACKED_CONFIRM,), "exchange", by=" by the broker"),
    Happening("delivered", events.DELIVERIES, "queue"),
    Happening("acked", (events.ACKED,), "queue"),
    *(Happening(kind, (kind,), "queue") for kind in events.REQUEUES),
    *(Happening(kind, (kind,), "queue", sequel=events.ARRIVALS) for kind in events.DEATHS),
    Happening("dropped", (events.DROPPED, *events.WITHOUT_REASON), "either", sequel=events.DEATHS),
)
HAPPENINGS: Final = {row.name: row for row in _ROWS}


class Question(NamedTuple):
    """A question of a test: what happened, where, and to which messages."""

    # The call as the user wrote it, for the failure text.
    call: str
    happening: Happening
    vhost: str
    # None means anywhere.
    place: str | None
    matcher: Matcher
    # None means any.
    reason: object = None
    # The queue a dead letter arrived in.
    to: str | None = None
    # None means at least once.
    times: int | None = None


@dataclass(slots=True, eq=False)
class Occurrence:
    """One event that matches a question, and the message it happened to. Later events may still change the answer."""

    event: Event
    message: MessageView
    # "queue" or "exchange", and its name, as in the question.
    place_kind: str
    place: str
    # Whether an expired copy was dead-lettered after all, or a publish was not committed.
    is_void: bool = False
    # The queues a dead letter arrived in, with the message as it arrived.
    arrivals: dict[str, Message] = field(default_factory=dict)

    @property
    def reason(self) -> object:
        """The reason of the event, None if it has none."""
        return events.reason_of(self.event.kind, self.event.get("reason"))


class EventSearch:
    """The events that match a question."""

    __slots__ = (
        *("_by_copy", "_count_at_end", "_deliveries", "_earlier", "_occurrences", "_queue_at", "_relevant", "_test"),
        *("question", "uncommitted"),
    )

    def __init__(self, question: Question) -> None:
        self.question: Final = question
        # The messages that open transactions hold back, by number. They do not count as published.
        self.uncommitted: Container[int] = ()
        self._occurrences: list[Occurrence] = []
        # The current test, None before the first, and the occurrences of earlier tests.
        self._test: str | None = None
        self._earlier: Final[list[tuple[str | None, list[Occurrence]]]] = []
        # How many occurrences there were when the test ended; None while it runs.
        self._count_at_end: int | None = None
        # The latest occurrence, and the latest delivery, of a copy. A publish is found by its message.
        self._by_copy: Final[dict[object, Occurrence]] = {}
        self._deliveries: Final[dict[object, RawEvent]] = {}
        happening = question.happening
        # The kinds of events to look at. Most events are of other kinds, or of another queue than the question names.
        self._relevant: Final = {
            *happening.kinds,
            *(events.DELIVERIES if happening.place != "exchange" else ()),
            *events.MARKS,
            *happening.sequel,
        }
        is_of_queue = happening.place == "queue" and question.place is not None
        kinds = (*happening.kinds, *events.DELIVERIES) if is_of_queue else ()
        # Where events name their queue, if only one queue counts.
        self._queue_at: Final = {kind: events.POSITIONS[kind]["queue"] for kind in kinds}

    def feed(self, new_events: Iterable[RawEvent]) -> None:
        """Take the events since the last call, in order."""
        kinds, sequel, place = self.question.happening.kinds, self.question.happening.sequel, self.question.place
        relevant, queue_at = self._relevant, self._queue_at
        for raw in new_events:
            kind = raw[0]
            if kind not in relevant or (kind in queue_at and raw[queue_at[kind]] != place):
                continue
            if kind in _DELIVERED_COPY:
                self._deliveries[raw[_DELIVERED_COPY[kind]]] = raw
            if kind in kinds:
                self._add(Event(raw))
            elif kind in sequel:
                self._add_sequel(Event(raw))
            elif kind == events.TEST_START:
                self._begin(Event(raw).test)
            elif kind == events.TEST_END:
                self._count_at_end = len(self._occurrences)

    def matches(self) -> list[Occurrence]:
        """Return the occurrences that match the question, in order."""
        return [occurrence for occurrence in self._occurrences if self._is_match(occurrence)]

    @property
    def has_seen_start(self) -> bool:
        """Whether the events fed include the beginning of the test."""
        return self._test is not None

    def matches_earlier(self) -> dict[str | None, int]:
        """Return how often a match occurred in each earlier test; the key None is the time outside of tests."""
        counts: dict[str | None, int] = {}
        for test, occurrences in self._earlier:
            counts[test] = counts.get(test, 0) + sum(map(self._is_match, occurrences))
        return {test: count for test, count in counts.items() if count}

    def view(self, occurrence: Occurrence) -> MessageView:
        """Return the message that the test gets: for a dead letter, the message as it arrived."""
        arrivals, to = occurrence.arrivals, self.question.to
        if not arrivals:
            return occurrence.message
        return MessageView(arrivals[to] if to in arrivals else next(iter(arrivals.values())))

    def _begin(self, test: str) -> None:
        ended = self._count_at_end
        self._earlier.append((self._test, self._occurrences[:ended]))
        if ended is not None:
            self._earlier.append((None, self._occurrences[ended:]))
        self._test, self._occurrences, self._count_at_end = test, [], None

    def _add(self, event: Event) -> None:
        if event.vhost != self.question.vhost or (event.kind == events.ACKED and event.reason == events.NO_ACK):
            return
        message = self._view(event)
        queue = cast("str | None", event.get("queue"))
        if queue is None or self.question.happening.place == "exchange":
            occurrence = Occurrence(event, message, "exchange", message.exchange)
        else:
            occurrence = Occurrence(event, message, "queue", queue)
        is_at_place = self.question.place in (None, occurrence.place)
        has_reason = self.question.reason is None or is_equal(self.question.reason, occurrence.reason)
        if is_at_place and has_reason and self.question.matcher.matches(occurrence.message):
            self._occurrences.append(occurrence)
            self._by_copy[event.message.id if event.kind == events.PUBLISHED else event.get("copy")] = occurrence

    def _add_sequel(self, event: Event) -> None:
        if event.kind in events.ARRIVALS:
            died = self._by_copy.get(event.src_copy) if event.src_copy is not None else None
            if died is not None and event.queue is not None:
                died.arrivals[event.queue] = cast("Message", event.message)
        elif event.kind in events.DEATHS or event.get("reason") in NOT_COMMITTED:
            ended = self._by_copy.get(event.copy if event.kind in events.DEATHS else event.message.id)
            if ended is not None:
                ended.is_void = True

    def _view(self, event: Event) -> MessageView:
        message = cast("Message", event.message)
        copy = event.get("copy")
        delivered = self._deliveries.get(copy) if copy is not None else None
        if delivered is None:
            return MessageView(message)
        delivery = Event(delivered)
        return MessageView(
            message,
            redelivered=delivery.redelivered,
            delivery_count=delivery.count,
            consumer_tag=cast("str | None", delivery.get("consumer")),
            delivered_at=delivery.at,
        )

    def _is_match(self, occurrence: Occurrence) -> bool:
        is_held = bool(self.uncommitted) and occurrence.event.message.id in self.uncommitted
        is_elsewhere = self.question.to is not None and self.question.to not in occurrence.arrivals
        return not occurrence.is_void and not is_held and not is_elsewhere
