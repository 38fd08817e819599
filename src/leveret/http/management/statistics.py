"""What clients did, counted from the recorded events: messages published, delivered and settled, objects created.

RabbitMQ samples counters every five seconds, and a rate is the difference of the last two samples. leveret counts when
it is asked, and a rate is what happened in the last five seconds of the broker's clock, divided by five. Events that
were dropped before a request read them are not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from leveret.trace import events
from leveret.trace.events import Event

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.trace.events import RawEvent
    from leveret.trace.recorder import Recorder

Described = dict[str, object]
# What is counted: ("queue", vhost, name), ("channel", connection, channel), ("exchange", vhost, name), ("vhost", name),
# and pairs of them, such as ("queue", vhost, name, "channel", connection, channel).
Subject = tuple[object, ...]

BROKER: Final[Subject] = ("broker",)
PUBLISHING: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DELIVERING: Final = (
    *("ack", "deliver", "deliver_get", "deliver_no_ack", "get", "get_empty", "get_no_ack", "redeliver"),
)
CHURN: Final = (
    *("connection_created", "connection_closed", "channel_created", "channel_closed"),
    *("queue_declared", "queue_created", "queue_deleted"),
)
LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")

_SECOND_US: Final = 1_000_000
_SAMPLED_S: Final = 5
_INTERNAL_USER: Final = "rmq-internal"


class Count:
    """How often something happened, and how often in each of the last seconds."""

    __slots__ = ("recent", "total")

    def __init__(self) -> None:
        self.total = 0
        # Pairs of a second and how often it happened then, oldest first.
        self.recent: deque[tuple[int, int]] = deque(maxlen=_SAMPLED_S + 1)

    def add(self, number: int, at: int) -> None:
        """Count something that happened at an instant in microseconds."""
        self.total += number
        second = at // _SECOND_US
        if self.recent and self.recent[-1][0] == second:
            number += self.recent.pop()[1]
        self.recent.append((second, number))

    def rate(self, now: int) -> float:
        """Return how often it happened in a second, over the sampled time."""
        begin = now // _SECOND_US - _SAMPLED_S
        return sum(number for second, number in self.recent if second > begin) / _SAMPLED_S


Counts = dict[str, Count]
_NONE: Final[Counts] = {}


class Statistics:
    """The counts of one broker. All methods need the broker's lock."""

    def __init__(self) -> None:
        self._last_seen: RawEvent | None = None
        self._counts: dict[Subject, Counts] = {}
        # Which consumers need no acknowledgement, by connection, channel and tag.
        self._automatic: dict[tuple[object, ...], bool] = {}
        self._users: dict[object, str] = {}
        # Who declared an exchange, by vhost and name.
        self.makers: dict[tuple[object, object], str] = {}
        # The channel and the number of the last published message, and the copy of the last basic.get.
        self._published: tuple[int, Subject, Subject] | None = None
        self._got: object = None
        # Copies that a consumer refused, until their fate is known.
        self._refused: set[object] = set()

    def catch_up(self, recorder: Recorder, node: Node) -> None:
        """Count what happened since the last call."""
        for raw in recorder.raw_after(self._last_seen):
            self._last_seen = raw
            handler = _HANDLERS.get(str(raw[0]))
            if handler is not None:
                handler(self, Event(raw), node)

    def of(self, *subject: object) -> Counts:
        """Return the counts of a subject."""
        return self._counts.get(subject, _NONE)

    def parts(self, *subject: object) -> list[tuple[Subject, Counts]]:
        """Return the rest of each subject that begins so, with its counts: the channels of a queue and the like."""
        length = len(subject)
        return [
            (known[length:], counts)
            for known, counts in self._counts.items()
            if len(known) > length and known[:length] == subject
        ]

    def _add(self, name: str, event: Event, subjects: Iterable[Subject], number: int = 1) -> None:
        for subject in subjects:
            self._counts.setdefault(subject, {}).setdefault(name, Count()).add(number, event.at)

    def _forget(self, *subject: object) -> None:
        for known in [known for known in self._counts if _contains(known, subject)]:
            del self._counts[known]

    def _published_one(self, event: Event, node: Node) -> None:
        channel: Subject = ("channel", event.conn, event.chan)
        exchange: Subject = ("exchange", event.vhost, event.message.exchange)
        self._published = (event.message.id, channel, exchange)
        self._add("publish", event, (BROKER, ("vhost", event.vhost), channel, (*channel, *exchange)))
        self._add("publish_in", event, (exchange,))
        self._add("publish", event, ((*exchange, *channel),))

    def _confirmed(self, event: Event, node: Node) -> None:
        self._add("confirm", event, (BROKER, ("vhost", event.vhost), ("channel", event.conn, event.chan)))

    def _returned(self, event: Event, node: Node) -> None:
        self._add("return_unroutable", event, (BROKER, ("vhost", event.vhost), ("channel", event.conn, event.chan)))

    def _enqueued(self, event: Event, node: Node) -> None:
        queue: Subject = ("queue", event.vhost, event.queue)
        self._length(event, ready=1)
        if event.src_copy is None:
            exchange: Subject = ("exchange", event.vhost, event.message.exchange)
            self._add("publish", event, (queue, (*queue, *exchange), (*exchange, *queue)))
            self._add("publish_out", event, (exchange,))

    def _delivered(self, event: Event, node: Node) -> None:
        is_automatic = self._automatic.get((event.conn, event.chan, event.consumer), False)
        self._handed_out("deliver_no_ack" if is_automatic else "deliver", event)

    def _fetched(self, event: Event, node: Node) -> None:
        self._got = event.copy
        self._handed_out("get", event)

    def _handed_out(self, name: str, event: Event) -> None:
        subjects = _delivery_subjects(event)
        self._add(name, event, subjects)
        self._add("deliver_get", event, subjects)
        if event.redelivered:
            self._add("redeliver", event, subjects)
        self._length(event, ready=-1, unacked=1)

    def _acked(self, event: Event, node: Node) -> None:
        self._length(event, unacked=-1)
        if event.reason != "no_ack":
            self._add("ack", event, _delivery_subjects(event))
        elif event.copy == self._got:
            # It was a basic.get without acknowledgement.
            self._add("get", event, _delivery_subjects(event), -1)
            self._add("get_no_ack", event, _delivery_subjects(event))

    def _gave_back(self, event: Event, node: Node) -> None:
        self._refused.add(event.copy)
        self._length(event, unacked=-1)

    def _requeued(self, event: Event, node: Node) -> None:
        is_counted = event.copy in self._refused
        self._refused.discard(event.copy)
        self._length(event, ready=1, unacked=0 if is_counted else -1)

    def _ended(self, event: Event, node: Node) -> None:
        if event.copy is not None:
            if event.copy not in self._refused:
                self._length(event, ready=-1)
            self._refused.discard(event.copy)
        elif event.reason == events.NO_ROUTE and self._published is not None:
            number, channel, exchange = self._published
            if number == event.message.id:
                self._add("drop_unroutable", event, (BROKER, ("vhost", event.vhost), channel, exchange))

    def _length(self, event: Event, *, ready: int = 0, unacked: int = 0) -> None:
        subjects: tuple[Subject, ...] = (BROKER, ("vhost", event.vhost), ("queue", event.vhost, event.queue))
        for name, number in zip(LENGTHS, (ready + unacked, ready, unacked), strict=True):
            if number:
                self._add(name, event, subjects, number)

    def _connection_opened(self, event: Event, node: Node) -> None:
        self._users[event.conn] = event.user
        self._add("connection_created", event, (BROKER,))

    def _connection_closed(self, event: Event, node: Node) -> None:
        self._add("connection_closed", event, (BROKER,))

    def _channel_opened(self, event: Event, node: Node) -> None:
        self._add("channel_created", event, (BROKER,))

    def _channel_closed(self, event: Event, node: Node) -> None:
        self._forget("channel", event.conn, event.chan)
        self._add("channel_closed", event, (BROKER,))

    def _queue_declared(self, event: Event, node: Node) -> None:
        self._add("queue_declared", event, (BROKER,))
        known: Subject = ("known", event.vhost, event.queue)
        if not self.of(*known):
            self._add("queue_created", event, (BROKER, known))

    def _queue_deleted(self, event: Event, node: Node) -> None:
        self._forget("queue", event.vhost, event.queue)
        self._forget("known", event.vhost, event.queue)
        self._add("queue_deleted", event, (BROKER,))

    def _exchange_declared(self, event: Event, node: Node) -> None:
        user = self._users.get(event.conn, _INTERNAL_USER)
        self.makers.setdefault((event.vhost, event.exchange), user)

    def _exchange_deleted(self, event: Event, node: Node) -> None:
        self.makers.pop((event.vhost, event.exchange), None)
        self._forget("exchange", event.vhost, event.exchange)

    def _consumed(self, event: Event, node: Node) -> None:
        self._automatic[event.conn, event.chan, event.consumer] = event.no_ack

    def maker(self, vhost_name: str, exchange_name: str) -> str:
        """Return the user who declared an exchange."""
        return self.makers.get((vhost_name, exchange_name), _INTERNAL_USER)


_HANDLERS: Final = {
    events.PUBLISHED: Statistics._published_one,
    events.CONFIRMED: Statistics._confirmed,
    events.RETURNED: Statistics._returned,
    events.ENQUEUED: Statistics._enqueued,
    events.DELIVERED: Statistics._delivered,
    events.GOT: Statistics._fetched,
    events.ACKED: Statistics._acked,
    events.NACKED: Statistics._gave_back,
    events.REJECTED: Statistics._gave_back,
    events.REQUEUED: Statistics._requeued,
    events.EXPIRED: Statistics._ended,
    events.DROPPED: Statistics._ended,
    events.DEAD_LETTERED: Statistics._ended,
    events.PURGED: Statistics._ended,
    events.CONN_OPEN: Statistics._connection_opened,
    events.CONN_CLOSE: Statistics._connection_closed,
    events.CHAN_OPEN: Statistics._channel_opened,
    events.CHAN_CLOSE: Statistics._channel_closed,
    events.QUEUE_DECLARE: Statistics._queue_declared,
    events.QUEUE_DELETE: Statistics._queue_deleted,
    events.EXCHANGE_DECLARE: Statistics._exchange_declared,
    events.EXCHANGE_DELETE: Statistics._exchange_deleted,
    events.CONSUME: Statistics._consumed,
}


def _contains(subject: Subject, part: Subject) -> bool:
    length = len(part)
    return any(subject[at : at + length] == part for at in range(0, len(subject), 3))


def _delivery_subjects(event: Event) -> tuple[Subject, ...]:
    queue: Subject = ("queue", event.vhost, event.queue)
    channel: Subject = ("channel", event.conn, event.chan)
    return BROKER, ("vhost", event.vhost), queue, channel, (*queue, *channel), (*channel, *queue)


def shown(counts: Counts, names: Iterable[str], now: int) -> Described:
    """Return counts with their rates."""
    found: Described = {}
    for name in names:
        count = counts.get(name)
        found[name] = 0 if count is None else count.total
        found[f"{name}_details"] = {"rate": 0.0 if count is None else count.rate(now)}
    return found


def rates(counts: Counts, values: Mapping[str, object], now: int) -> Described:
    """Return values that are known otherwise, each with the rate at which it changes."""
    found: Described = {}
    for name, value in values.items():
        count = counts.get(name)
        found[name] = value
        found[f"{name}_details"] = {"rate": 0.0 if count is None else count.rate(now)}
    return found


def message_stats(counts: Counts, now: int, *groups: tuple[str, ...]) -> Described:
    """Return the groups of counts of which any has begun, as an entry `message_stats`; nothing if none has."""
    found: Described = {}
    for group in groups:
        if any(name in counts for name in group):
            found |= shown(counts, group, now)
    return {"message_stats": found} if found else {}
