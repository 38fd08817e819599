"""A stream: a log that each consumer reads from its own offset.

Consumers take nothing out of the log. A delivery moves the reader on, and settling it, in any way, makes room for the
next one. Invariant: a reader with room has read to the end of the log. Only those readers wait for the next message.
The others read on from the log when they have room again, so a publish never walks the log or past readers that are
full.

`ready` is the whole log: all messages that a new consumer could get, each as the consumer would get it. leveret counts
a message in queue.declare-ok at once, while RabbitMQ lags by some seconds. Like RabbitMQ, it counts no consumers there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from leveret.core.model.errors import InternalRefusal, NotImplementedByBroker, PreconditionFailed
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.ports import Subscriber
from leveret.core.model.queues.arguments import is_true
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.settings import QueueSettings
from leveret.core.model.queues.stored_queue import QueueSpec, StoredQueue
from leveret.core.model.streams import stream_offset
from leveret.core.model.streams.stream_log import DEFAULT_SEGMENT_BYTES, StreamLog
from leveret.core.model.streams.stream_message import refuse_unstorable, stored
from leveret.core.wire.values import Field, Table, Value
from leveret.trace import events

# The reason for which a message left the log.
RETENTION = "retention"
# A return without a request of the client: the channel has ended.
_CHANNEL_CLOSED = "channel_closed"
_FILTER_HEADER: Final = "x-stream-filter-value"
_UNFILTERED: Final = b""


class _LogReader:
    """A consumer's place in the log."""

    __slots__ = ("consumer", "filter", "next_offset")

    def __init__(self, consumer: Consumer, next_offset: int, wanted: _Filter | None) -> None:
        self.consumer = consumer
        # May be beyond the end: then the consumer waits for it.
        self.next_offset = next_offset
        self.filter = wanted

    def read(self, log: StreamLog) -> QueueEntry | None:
        """Return the next entry that passes its filter, None at the end of the log."""
        while (entry := log.at(self.next_offset)) is not None:
            self.next_offset = entry.position + 1
            if self.filter is None or self.filter.takes(entry.message):
                return entry
        return None


class StreamQueue(StoredQueue):
    """A queue of type stream."""

    settles_at_once = True

    __slots__ = ("_held", "_log", "_readers", "_waiting")

    def __init__(self, spec: QueueSpec) -> None:
        super().__init__(spec)
        self._log = StreamLog()
        self._readers: dict[Consumer, _LogReader] = {}
        # The readers with room. All of them have read to the end.
        self._waiting: dict[Consumer, _LogReader] = {}
        # Unsettled deliveries; several consumers may hold the same copy.
        self._held: dict[tuple[Consumer, int], QueueEntry] = {}

    @property
    def ready(self) -> StreamLog:
        """Every message in the log, oldest first."""
        return self._log

    @property
    def unacked(self) -> Sequence[QueueEntry]:
        """The unsettled deliveries: an entry once for each consumer that holds it."""
        return list(self._held.values())

    @property
    def declared_consumer_count(self) -> int:
        """Always 0: RabbitMQ does not count a stream's consumers in queue.declare-ok (seen on 3.10, 4.0 and 4.3)."""
        return 0

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Append a message. Raises InternalRefusal if RabbitMQ cannot store it. Hot: once per message and stream.

        A dead letter is never refused, because it has no publisher to refuse. Values that cannot be stored are dropped
        from it.
        """
        node = self.node
        if src_copy is None:
            refuse_unstorable(message)
            if node.compat.has_stream_filters:
                _refuse_invalid_value(message)
        log = self._log
        limit = self.settings.max_segment_bytes
        if log.is_segment_full(DEFAULT_SEGMENT_BYTES if limit is None else limit):
            log.open_segment()
            self._drop_outdated()
        node.last_copy += 1
        message = stored(message, log.next_offset, node.compat)
        entry = QueueEntry(message, log.next_offset, node.last_copy, node.now)
        log.append(entry)
        self.tap_copy(events.ENQUEUED, entry, src_copy, None)
        for reader in list(self._waiting.values()):
            self._read_on(reader)
        return True

    def _read_on(self, reader: _LogReader) -> None:
        """Deliver until the reader is full or has read everything."""
        consumer = reader.consumer
        while consumer.has_room():
            entry = reader.read(self._log)
            if entry is None:
                self._waiting[consumer] = reader
                return
            self._held[consumer, entry.copy] = entry
            consumer.unacked_count += 1
            consumer.subscriber.deliver(consumer, entry)
        self._waiting.pop(consumer, None)

    def get(self, subscriber: Subscriber | None = None, *, no_ack: bool) -> QueueEntry | None:
        """Refuse: a stream has consumers only."""
        raise NotImplementedByBroker(f"basic.get not supported by stream queues {self.title}")

    def purge(self) -> int:
        """Refuse: a stream drops messages by retention only."""
        raise NotImplementedByBroker(f"queue.purge not supported by stream queues {self.title}")

    def refuse_subscription(self, *, prefetch_count: int, no_ack: bool) -> None:
        """Refuse a consumer that a stream does not support, in RabbitMQ's order of checks."""
        compat = self.node.compat
        if not prefetch_count:
            shown = f"'{self.title}'" if compat.has_first_stream_texts else f"stream {self.title}"
            raise PreconditionFailed(f"consumer prefetch count is not set for {shown}")
        if no_ack:
            kind = "stream queues" if compat.has_first_stream_texts else "stream"
            raise NotImplementedByBroker(f"automatic acknowledgement not supported by {kind} {self.title}")

    def add_consumer(self, consumer: Consumer) -> Consumer:
        """Add a consumer at its offset; the exclusive flag has no effect. Raises InternalRefusal for a bad offset."""
        start = stream_offset.start_of(consumer.arguments, self._log, self.node.now)
        wanted = _Filter.from_arguments(consumer.arguments) if self.node.compat.has_stream_filters else None
        self.consumers.append(consumer)
        self._readers[consumer] = _LogReader(consumer, start, wanted)
        return consumer

    def start_consumer(self, consumer: Consumer) -> None:
        """Let a consumer read on if it has room."""
        reader = self._readers.get(consumer)
        if reader is not None:
            self._read_on(reader)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer, and forget its place in the log."""
        if consumer.is_cancelled:
            return
        consumer.cancel()
        self.consumers.remove(consumer)
        del self._readers[consumer]
        self._waiting.pop(consumer, None)

    def can_deliver_to(self, consumer: Consumer) -> bool:
        """Return whether the log holds an entry that this consumer has not read and has room for."""
        reader = self._readers[consumer]
        return consumer.has_room() and self._log.at(reader.next_offset) is not None

    def acknowledge(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        """End a delivery, so that its consumer has room for another. Hot: once per acknowledged message."""
        self._settle(entry, consumer)

    def discard(self, entry: QueueEntry, consumer: Consumer | None, *, is_failure: bool) -> None:
        """End a delivery: depending on the version, it counts as an acknowledgement or is not supported."""
        self._refuse_give_up()
        self._settle(entry, consumer)

    def requeue(self, returns: Sequence[tuple[QueueEntry, Consumer | None]], reason: str, *, is_failure: bool) -> None:
        """End deliveries. Nothing returns to the log, because nothing has left it."""
        if reason != _CHANNEL_CLOSED:
            self._refuse_give_up(reason)
        for entry, consumer in returns:
            self._settle(entry, consumer)

    def _refuse_give_up(self, reason: str = events.REJECTED) -> None:
        # The channel forgets a deleted stream, and settles nothing there (rabbit_queue_type, seen on 3.10).
        if self.node.compat.stream_reject_is_credit or self.is_deleted:
            return
        if reason not in events.REFUSING:
            raise InternalRefusal()
        raise NotImplementedByBroker(f"basic.nack and basic.reject not supported by stream queues {self.title}")

    def _settle(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        assert consumer is not None, "a stream has no basic.get"
        self._held.pop((consumer, entry.copy), None)
        consumer.unacked_count -= 1
        assert consumer.unacked_count >= 0, f"a delivery of {consumer.tag} was settled twice"
        if consumer.is_cancelled:
            self._raise_limit_of_namesake(consumer)
        else:
            self.start_consumer(consumer)

    def _raise_limit_of_namesake(self, gone: Consumer) -> None:
        """Let the consumer with the tag of a cancelled one hold one more delivery, permanently.

        A channel knows its readers by tag, and a settlement gives one credit (rabbit_stream_queue, seen on 3.10, 4.0
        and 4.3).
        """
        for consumer in self.consumers:
            if consumer.tag == gone.tag and consumer.subscriber is gone.subscriber:
                consumer.limit += 1
                self.start_consumer(consumer)

    def closed(self) -> int:
        """Drop everything, because the stream is deleted; return 0, as RabbitMQ reports no messages lost."""
        self.is_deleted = True
        for entry in self._log.clear():
            self.tap_copy(events.PURGED, entry, "queue_deleted")
        self._held.clear()
        self._readers.clear()
        self._waiting.clear()
        self.cancel_consumers()
        return 0

    def apply(self, settings: QueueSettings) -> None:
        """Take on new effective settings: retention applies them at once."""
        self.settings = settings
        self._drop_outdated()

    def forget_transient(self) -> None:
        """Keep everything over a restart, except what retention drops."""
        self._drop_outdated()

    def _drop_outdated(self) -> None:
        """Drop the segments that exceed the limits in bytes and age."""
        settings, dropped = self.settings, []
        if settings.max_length_bytes is not None:
            dropped += self._log.drop_beyond(settings.max_length_bytes)
        if settings.max_age_us is not None:
            dropped += self._log.drop_before((self.node.now - settings.max_age_us) // 1000)
        for entry in dropped:
            self.tap_copy(events.DROPPED, entry, RETENTION)


class _Filter(NamedTuple):
    """The values that one consumer wants: x-stream-filter and x-stream-match-unfiltered.

    A publisher sets a message's value with the header x-stream-filter-value. RabbitMQ filters whole chunks and may
    deliver more than the consumer asked for; leveret filters exactly. A missing value and an empty one are the same
    (seen on 4.3).
    """

    values: frozenset[bytes]

    @classmethod
    def from_arguments(cls, arguments: Table) -> _Filter | None:
        """Return a consumer's filter, None if it wants everything.

        Raises InternalRefusal for an array without strings.
        """
        field = arguments.get("x-stream-filter")
        if field is None or field.tag not in "SA":
            # RabbitMQ ignores a filter of another type.
            return None
        values = [field.value] if field.tag == "S" else _strings_in(field)
        if is_true(arguments, "x-stream-match-unfiltered"):
            values.append(_UNFILTERED)
        return cls(frozenset(value for value in values if isinstance(value, bytes)))

    def takes(self, message: Message) -> bool:
        """Return whether the consumer wants this message."""
        return _value_of(message) in self.values


def _refuse_invalid_value(message: Message) -> None:
    """Refuse a message whose filter value is not a string: RabbitMQ crashes on it."""
    field = _value_field(message)
    if field is not None and field.tag != "S":
        raise InternalRefusal().at(0)


def _value_of(message: Message) -> bytes:
    field = _value_field(message)
    return field.value if field is not None and isinstance(field.value, bytes) else _UNFILTERED


def _value_field(message: Message) -> Field | None:
    return None if message.headers is None else message.headers.get(_FILTER_HEADER)


def _strings_in(field: Field) -> list[Value]:
    items = field.value if isinstance(field.value, tuple) else ()
    strings = [item.value for item in items if isinstance(item, Field) and item.tag == "S"]
    if not strings:
        raise InternalRefusal()
    return strings
