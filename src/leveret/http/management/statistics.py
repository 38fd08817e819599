"""What clients did, counted from the recorded events: messages published, delivered and settled, objects created.

RabbitMQ samples counters every five seconds, and a rate is the difference of the last two samples. leveret counts when
it is asked, and a rate is what happened in the last five seconds of the broker's clock, divided by five. Events that
were dropped before a request read them are not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final, cast

from leveret.trace import events
from leveret.trace.events import RawEvent
from leveret.trace.ring import EventRing

Described = dict[str, object]
# What is counted: ("queue", vhost, name), ("channel", connection, channel), ("exchange", vhost, name), ("vhost", name).
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
INTERNAL_USER: Final = "rmq-internal"


class Count:
    """How often something happened, and how often in each of the last seconds."""

    __slots__ = ("by_second", "total")

    def __init__(self) -> None:
        self.total = 0
        # Only of the seconds that a rate can still need.
        self.by_second: dict[int, int] = {}

    def add(self, number: int, second: int) -> None:
        """Count something that happened in a second of the broker's clock. Hot: several times for each event."""
        self.total += number
        recent = self.by_second
        if second in recent:
            recent[second] += number
        else:
            for past in [past for past in recent if past <= second - _SAMPLED_S]:
                del recent[past]
            recent[second] = number

    def rate(self, now: int) -> float:
        """Return how often it happened in a second, over the sampled time; `now` is in microseconds."""
        begin = now // _SECOND_US - _SAMPLED_S
        return sum(number for second, number in self.by_second.items() if second > begin) / _SAMPLED_S


Counts = dict[str, Count]
_NONE: Final[Counts] = {}


class Statistics:
    """The counts of one broker."""

    def __init__(self) -> None:
        # How many events were read.
        self._read_count = 0
        self._counts: defaultdict[Subject, defaultdict[str, Count]] = defaultdict(lambda: defaultdict(Count))
        # The consumers that need no acknowledgement, by connection, channel and tag.
        self._automatic: dict[Subject, bool] = {}
        self._users: dict[object, str] = {}
        # Who declared an exchange, by vhost and name.
        self.makers: dict[Subject, str] = {}
        # The number, channel and exchange of the last published message, and the copy of the last basic.get.
        self._published: tuple[int, Subject, Subject] | None = None
        self._got: object = None
        # The channels that have published to a queue, by vhost and name.
        self._publishers: defaultdict[Subject, dict[Subject, None]] = defaultdict(dict)
        # Copies that a consumer refused, until their fate is known.
        self._refused: set[object] = set()

    def unread(self, recorder: EventRing) -> list[RawEvent]:
        """Return the events since the last call. The caller holds the broker's lock."""
        new = recorder.raw_after(self._read_count)
        self._read_count = recorder.recorded_count
        return new

    def read(self, new: Iterable[RawEvent], actor: str = INTERNAL_USER) -> None:
        """Count events. Those of no client are the work of `actor`."""
        self._users[None] = actor
        for raw in new:
            if raw[0] in _CHURN:
                self._count(cast("int", raw[1]), (_CHURN[raw[0]],), BROKER)
            handler = _HANDLERS.get(raw[0])
            if handler is not None:
                handler(self, *raw[1:])

    def of(self, *subject: object) -> Counts:
        """Return the counts of a subject."""
        return self._counts.get(subject, _NONE)

    def publisher_count(self, vhost: str, queue: str, connections: Container[object]) -> int:
        """Return how many channels of these connections have published to a queue."""
        return sum(channel[1] in connections for channel in self._publishers.get((vhost, queue), ()))

    def _count(self, at: int, names: tuple[str, ...], *subjects: Subject, number: int = 1) -> None:
        """Add to each of these counts of each subject. Hot: several times for each event."""
        second = at // _SECOND_US
        for subject in subjects:
            counts = self._counts[subject]
            for name in names:
                counts[name].add(number, second)

    def _forget(self, *subject: object) -> None:
        self._counts.pop(subject, None)

    def _add_length(self, at: int, vhost: str, queue: str | None, *, ready: int = 0, unacked: int = 0) -> None:
        for name, number in zip(LENGTHS, (ready + unacked, ready, unacked), strict=True):
            if number:
                self._count(at, (name,), BROKER, ("vhost", vhost), ("queue", vhost, queue), number=number)

    def _on_published(self, at: int, vhost: str, conn: object, chan: object, message: Any, *rest: object) -> None:
        exchange, channel = ("exchange", vhost, message.exchange), ("channel", conn, chan)
        self._published = (message.id, channel, exchange)
        self._count(at, ("publish_in",), exchange)
        self._count(at, ("publish",), BROKER, ("vhost", vhost), channel)

    def _on_confirmed(self, at: int, vhost: str, conn: object, chan: object, *rest: object) -> None:
        self._count(at, ("confirm",), BROKER, ("vhost", vhost), ("channel", conn, chan))

    def _on_returned(self, at: int, vhost: str, conn: object, chan: object, *rest: object) -> None:
        self._count(at, ("return_unroutable",), BROKER, ("vhost", vhost), ("channel", conn, chan))

    def _on_enqueued(
        self, at: int, vhost: str, queue: str | None, message: Any, copy: object, src_copy: object, *rest: object
    ) -> None:
        self._add_length(at, vhost, queue, ready=1)
        if src_copy is None:
            self._count(at, ("publish_out",), ("exchange", vhost, message.exchange))
            self._count(at, ("publish",), ("queue", vhost, queue))
            if self._published is not None and self._published[0] == message.id:
                self._publishers[vhost, queue][self._published[1]] = None

    def _on_delivered(self, at: int, vhost: str, conn: object, chan: object, queue: str, *rest: object) -> None:
        _, _, consumer, _, redelivered, _ = rest
        name = "deliver_no_ack" if self._automatic.get((conn, chan, consumer)) else "deliver"
        self._handed_out(at, name, redelivered, *_ends(vhost, conn, chan, queue))
        self._add_length(at, vhost, queue, ready=-1, unacked=1)

    def _on_got(self, at: int, vhost: str, conn: object, chan: object, queue: str, *rest: object) -> None:
        _, self._got, _, redelivered, _ = rest
        self._handed_out(at, "get", redelivered, *_ends(vhost, conn, chan, queue))
        self._add_length(at, vhost, queue, ready=-1, unacked=1)

    def _handed_out(self, at: int, name: str, redelivered: object, *ends: Subject) -> None:
        self._count(at, (name, "deliver_get", "redeliver") if redelivered else (name, "deliver_get"), *ends)

    def _on_acked(self, at: int, vhost: str, conn: object, chan: object, queue: str, *rest: object) -> None:
        _, copy, *_, reason = rest
        ends = _ends(vhost, conn, chan, queue)
        self._add_length(at, vhost, queue, unacked=-1)
        if reason != "no_ack":
            self._count(at, ("ack",), *ends)
        elif copy == self._got:
            # It was a basic.get without acknowledgement.
            self._count(at, ("get",), *ends, number=-1)
            self._count(at, ("get_no_ack",), *ends)

    def _on_refused(
        self, at: int, vhost: str, conn: object, chan: object, queue: str, message: object, copy: object, *rest: object
    ) -> None:
        self._refused.add(copy)
        self._add_length(at, vhost, queue, unacked=-1)

    def _on_requeued(self, at: int, vhost: str, queue: str, message: object, copy: object, *rest: object) -> None:
        is_counted = copy in self._refused
        self._refused.discard(copy)
        self._add_length(at, vhost, queue, ready=1, unacked=0 if is_counted else -1)

    def _on_ended(
        self, at: int, vhost: str, queue: str | None, message: Any, copy: object, reason: object = None, *rest: object
    ) -> None:
        if copy is not None:
            if copy not in self._refused:
                self._add_length(at, vhost, queue, ready=-1)
            self._refused.discard(copy)
        elif reason == events.NO_ROUTE and self._published is not None and self._published[0] == message.id:
            self._count(at, ("drop_unroutable",), BROKER, ("vhost", vhost), *self._published[1:])

    def _on_connection(
        self, at: int, vhost: str, conn: object, chan: object, peer: object, user: str, *rest: object
    ) -> None:
        self._users[conn] = user

    def _on_channel_closed(self, at: int, vhost: str, conn: object, chan: object, *rest: object) -> None:
        self._forget("channel", conn, chan)
        for channels in self._publishers.values():
            channels.pop(("channel", conn, chan), None)

    def _on_queue_declared(self, at: int, vhost: str, conn: object, chan: object, queue: str, *rest: object) -> None:
        mark: Subject = ("known", vhost, queue)
        if mark not in self._counts:
            self._counts[mark] = defaultdict(Count)
            self._count(at, ("queue_created",), BROKER)

    def _on_queue_deleted(self, at: int, vhost: str, conn: object, chan: object, queue: str, *rest: object) -> None:
        self._forget("queue", vhost, queue)
        self._forget("known", vhost, queue)
        self._publishers.pop((vhost, queue), None)

    def _on_exchange_declared(self, at: int, vhost: str, conn: object, chan: object, name: str, *rest: object) -> None:
        self.makers.setdefault((vhost, name), self._users.get(conn, self._users[None]))

    def _on_exchange_deleted(self, at: int, vhost: str, conn: object, chan: object, name: str) -> None:
        self.makers.pop((vhost, name), None)
        self._forget("exchange", vhost, name)

    def _on_consume(self, at: int, vhost: str, conn: object, chan: object, *rest: object) -> None:
        _, consumer, no_ack, *_ = rest
        self._automatic[conn, chan, consumer] = bool(no_ack)


def _ends(vhost: str, conn: object, chan: object, queue: str) -> tuple[Subject, ...]:
    """Return what counts a message between a queue and a channel."""
    return BROKER, ("vhost", vhost), ("queue", vhost, queue), ("channel", conn, chan)


# What each kind of event is counted as for the broker.
_CHURN: Final[dict[object, str]] = {
    events.CONN_OPEN: "connection_created",
    events.CONN_CLOSE: "connection_closed",
    events.CHAN_OPEN: "channel_created",
    events.CHAN_CLOSE: "channel_closed",
    events.QUEUE_DECLARE: "queue_declared",
    events.QUEUE_DELETE: "queue_deleted",
}
# Each takes the fields of its kind of event, in the order of `events.TABLE`.
_HANDLERS: Final[dict[object, Callable[..., None]]] = {
    events.PUBLISHED: Statistics._on_published,
    events.CONFIRMED: Statistics._on_confirmed,
    **dict.fromkeys(events.RETURNS, Statistics._on_returned),
    events.ENQUEUED: Statistics._on_enqueued,
    **dict.fromkeys(events.DELIVERIES, Statistics._on_got),
    **dict.fromkeys(events.PUSHES, Statistics._on_delivered),
    events.ACKED: Statistics._on_acked,
    **dict.fromkeys(events.REQUEUES, Statistics._on_requeued),
    **dict.fromkeys(events.REFUSING, Statistics._on_refused),
    **{kind: Statistics._on_ended for kind in events.ENDS if kind not in events.SETTLING},
    events.CONN_OPEN: Statistics._on_connection,
    events.CHAN_CLOSE: Statistics._on_channel_closed,
    events.QUEUE_DECLARE: Statistics._on_queue_declared,
    events.QUEUE_DELETE: Statistics._on_queue_deleted,
    events.EXCHANGE_DECLARE: Statistics._on_exchange_declared,
    events.EXCHANGE_DELETE: Statistics._on_exchange_deleted,
    events.CONSUME: Statistics._on_consume,
}


def shown(counts: Counts, names: Iterable[str], now: int) -> Described:
    """Return counts with their rates."""
    return rates(counts, {name: counts[name].total if name in counts else 0 for name in names}, now)


def rates(counts: Counts, values: Mapping[str, object], now: int) -> Described:
    """Return values that are known otherwise, each with the rate at which it changes."""
    rated: Described = {}
    for name, value in values.items():
        count = counts.get(name)
        rated[name] = value
        rated[f"{name}_details"] = {"rate": 0.0 if count is None else count.rate(now)}
    return rated


def message_stats(counts: Counts, now: int, *groups: tuple[str, ...]) -> Described:
    """Return the groups of counts of which any has begun, as an entry `message_stats`; nothing if none has."""
    stats: Described = {}
    for group in groups:
        if any(name in counts for name in group):
            stats |= shown(counts, group, now)
    return {"message_stats": stats} if stats else {}


def together(several: Iterable[Counts]) -> Counts:
    """Return the sums of counts."""
    sums: Counts = {}
    for counts in several:
        for name, count in counts.items():
            total = sums.setdefault(name, Count())
            total.total += count.total
            for second, number in count.by_second.items():
                total.by_second[second] = total.by_second.get(second, 0) + number
    return sums
