"""The timeline of a broker: what its events show, as entities that know each other.

It takes the events in order, in one piece or in several, and keeps for each connection, queue, message, copy and
delivery the facts that show it. `tests/story/test_timeline.py` holds it to the broker: after random traffic, both agree
on what is ready, who holds what, who consumes, and what is bound.

It is made when a test fails. A passing test never imports it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Final, cast

from leveret.story.entities import (
    BindingLife,
    ChannelLife,
    ConnectionLife,
    ConsumerLife,
    CopyLife,
    DeliveryLife,
    ExchangeLife,
    Fact,
    MessageLife,
    Place,
    QueueLife,
    Role,
    arguments_of,
    ended_as,
)
from leveret.story.words import AGAIN, UNACKED
from leveret.trace import events
from leveret.trace.events import POSITIONS, TABLE, RawEvent, TracedMessage
from leveret.wording import client_place_text, short_span_text

_ROLES: Final[dict[str, Role]] = {
    events.PUBLISHED: "publisher",
    **dict.fromkeys((events.CONSUME, *events.DELIVERIES), "consumer"),
}
# Where the tuples of these kinds have these fields.
_VHOST: Final = POSITIONS[events.PUBLISHED]["vhost"]
_CONN: Final = POSITIONS[events.PUBLISHED]["conn"]
_PUBLISHED: Final = POSITIONS[events.PUBLISHED]["message"]
_SRC_COPY: Final = POSITIONS[events.ENQUEUED]["src_copy"]


class Timeline:
    """What the events of one broker show until now."""

    def __init__(self, raw_events: Iterable[RawEvent] = ()) -> None:
        # All events that it was given, in order.
        self.facts: Final[list[Fact]] = []
        self.connections: Final[dict[int, ConnectionLife]] = {}
        self.messages: Final[dict[int, MessageLife]] = {}
        self.copies: Final[dict[int, CopyLife]] = {}
        # The queues and exchanges that exist, as far as events show it, and those that were deleted.
        self.queues: Final[dict[Place, QueueLife]] = {}
        self.exchanges: Final[dict[Place, ExchangeLife]] = {}
        self.deleted_queues: Final[dict[Place, list[QueueLife]]] = {}
        self.bindings: Final[list[BindingLife]] = []
        # The bindings that exist, by their identities, at each of their two ends.
        self._bound_at: Final[dict[tuple[str, Place], dict[object, BindingLife]]] = {}
        # The places of what declares or binds what exists, as clients do when they connect again.
        self.repeats: Final[set[int]] = set()
        self.refusals: Final[list[Fact]] = []
        self.faults: Final[list[Fact]] = []
        # The calls of the test, and where the tests of this broker began.
        self.calls: Final[list[Fact]] = []
        self.starts: Final[list[Fact]] = []
        # The end of the last of these tests, if it is over.
        self.ended: Fact | None = None
        # What an earlier place showed, when that was last asked for, and the requests if they were asked for.
        self._cut: Timeline | None = None
        self._requests: dict[Place, list[MessageLife]] | None = None
        self.take(raw_events)

    def take(self, raw_events: Iterable[RawEvent]) -> None:
        """Take the next events. Those of an unknown kind, of a newer file, are facts and show nothing else."""
        self._requests = None
        facts = self.facts
        for raw in raw_events:
            fact = Fact(raw, len(facts))
            facts.append(fact)
            handler = _HANDLERS.get(cast("str", raw[0]))
            if handler is not None:
                handler(self, fact, raw)

    def at(self, place: int) -> Timeline:
        """Return what the first `place` facts show."""
        if place >= len(self.facts):
            return self
        if self._cut is None or len(self._cut.facts) != place:
            self._cut = Timeline([fact.raw for fact in self.facts[:place]])
        return self._cut

    @property
    def began(self) -> int:
        """The place at which the current test began; 0 if no mark of it is left."""
        return self.began_of(None)

    def began_of(self, test: str | None) -> int:
        """Return the place at which a test began, or the last one without a name; 0 if no mark of it is left."""
        return next((start.place for start in reversed(self.starts) if test in (None, start.test)), 0)

    @property
    def recent(self) -> list[Fact]:
        """The facts of the current test."""
        return self.facts[self.began :]

    @property
    def has_clients(self) -> bool:
        """Whether a client has connected, or tried to and was refused."""
        return bool(self.refusals) or any(one.opened is not None for one in self.connections.values())

    @property
    def now(self) -> int | None:
        """When the last of its facts happened, in microseconds of the broker's clock."""
        return self.facts[-1].at if self.facts else None

    def name(self, connection: ConnectionLife | None, unnamed: str = "a client") -> str:
        """Return what to call a client: by its own name for its connection; None is the test itself."""
        return "the test" if connection is None else connection.name or unnamed

    def by(self, fact: Fact) -> ConnectionLife | None:
        """Return the connection that caused a fact; None is the test, or the broker itself."""
        number = fact.get("conn")
        return None if number is None else self._connection(cast("int", number))

    def who(self, fact: Fact) -> str:
        """Return who caused a fact: a client's connection and channel, or the test and its line."""
        connection = self.by(fact)
        if connection is None:
            call = self.call_before(fact)
            return "the test" if call is None else f"the test at {call.caller}"
        return client_place_text(self.name(connection), connection.number, cast("int | None", fact.get("chan")))

    def call_before(self, fact: Fact) -> Fact | None:
        """Return the call of the test that came last before a fact."""
        at = bisect_left(self.calls, fact.place, key=lambda call: call.place)
        return self.calls[at - 1] if at else None

    def queue(self, vhost: str, name: str) -> QueueLife | None:
        """Return the queue of that name, or the one that was deleted last; None if no event names it."""
        found = self.queues.get((vhost, name))
        return found or next(reversed(self.deleted_queues.get((vhost, name), [])), None)

    @property
    def requests(self) -> dict[Place, list[MessageLife]]:
        """The messages that ask for a reply, in order, by the queue for it."""
        if self._requests is None:
            self._requests = {}
            for life in self.messages.values():
                reply_to = life.property("reply_to")
                if reply_to is not None:
                    self._requests.setdefault((life.vhost, str(reply_to)), []).append(life)
        return self._requests

    def deletion_text(self, vhost: str, name: str, before: int | None) -> str | None:
        """Return that a queue was deleted before an instant, and how; None if it was not."""
        is_before = (
            (queue, deleted)
            for queue in reversed(self.deleted_queues.get((vhost, name), []))
            if (deleted := queue.deleted) is not None and deleted.at <= (before or deleted.at)
        )
        queue, deleted = next(is_before, (None, None))
        if queue is None or deleted is None:
            return None
        ago = "" if before is None else f" {short_span_text(before - deleted.at)} before"
        how = self.deletion_how(queue)
        return f"queue {name!r} was deleted{ago}{',' if ago and not how.startswith('by ') else ''} {how}"

    def deletion_how(self, queue: QueueLife) -> str:
        """Return how a queue came to be deleted: "when c3 (web) closed its connection (exclusive)"."""
        reason = None if queue.deleted is None else queue.deleted.reason
        match reason:
            case "exclusive" if queue.owner is not None:
                lost = "lost" if queue.owner.is_lost else "closed"
                return f"when {queue.owner.short} {lost} its connection (exclusive)"
            case "exclusive":
                return "when its connection closed (exclusive)"
            case "auto_delete":
                return "when its last consumer left (auto-delete)"
            case "expired":
                return "because it was unused for too long (x-expires)"
            case _:
                return f"by {self.deleter(queue)}"

    def deleter(self, queue: QueueLife) -> str:
        """Return who deleted a queue, or whose end did: "c3 (web)", "the test", "the broker"."""
        deleted, by = queue.deleted, self.deleted_by(queue)
        if deleted is None or by is not None:
            return "" if by is None else by.short
        return "the test" if deleted.reason is None else "the broker"

    def deleted_by(self, queue: QueueLife) -> ConnectionLife | None:
        """Return the connection that deleted a queue, or that took it along when it closed."""
        deleted = queue.deleted
        if deleted is None or deleted.conn is not None:
            return None if deleted is None else self.by(deleted)
        return queue.owner if deleted.reason == "exclusive" else None

    # Connections and channels.

    def _connection(self, number: int) -> ConnectionLife:
        found = self.connections.get(number)
        if found is None:
            found = self.connections[number] = ConnectionLife(number)
        return found

    def _channel(self, number: int, channel: int) -> ChannelLife:
        connection = self._connection(number)
        found = connection.channels.get(channel)
        if found is None:
            found = connection.channels[channel] = ChannelLife(connection, channel)
        return found

    def _acted(self, fact: Fact, number: int | None) -> ConnectionLife | None:
        """Note that a connection did something, and return it."""
        if number is None:
            return None
        connection = self._connection(number)
        connection.last_act = fact
        role = _ROLES.get(fact.kind)
        if role is not None:
            connection.roles[role] = None
        return connection

    def _connection_opened(self, fact: Fact, raw: RawEvent) -> None:
        self._connection(cast("int", fact.conn)).opened = fact

    def _connection_closed(self, fact: Fact, raw: RawEvent) -> None:
        connection = self._connection(cast("int", fact.conn))
        connection.closed = fact
        for channel in connection.channels.values():
            self._end_channel(channel, fact)

    def _channel_opened(self, fact: Fact, raw: RawEvent) -> None:
        connection, number = self._connection(cast("int", fact.conn)), cast("int", fact.chan)
        connection.channels[number] = ChannelLife(connection, number, fact)
        connection.last_act = fact

    def _channel_closed(self, fact: Fact, raw: RawEvent) -> None:
        self._end_channel(self._channel(cast("int", fact.conn), cast("int", fact.chan)), fact)

    def _end_channel(self, channel: ChannelLife, fact: Fact) -> None:
        channel.closed = channel.closed or fact
        for consumer in channel.consumers:
            consumer.until = consumer.until or fact
        # What a stream has handed out does not come back to it, so no other fact ends that.
        for delivery in [one for one in channel.held.values() if one.copy.queue.is_stream]:
            delivery.ended = fact
            del channel.held[delivery.fact.tag]

    def _limited(self, fact: Fact, raw: RawEvent) -> None:
        if fact.conn is not None and fact.chan is not None:
            self._channel(fact.conn, fact.chan).limits.append(fact)

    def _called(self, fact: Fact, raw: RawEvent) -> None:
        self.calls.append(fact)

    def _began(self, fact: Fact, raw: RawEvent) -> None:
        self.starts.append(fact)
        self.ended = None

    def _test_ended(self, fact: Fact, raw: RawEvent) -> None:
        self.ended = fact

    def _refused(self, fact: Fact, raw: RawEvent) -> None:
        self.refusals.append(fact)
        if fact.conn is not None:
            self._connection(fact.conn).refusals.append(fact)

    def _fault(self, fact: Fact, raw: RawEvent) -> None:
        self.faults.append(fact)
        if fact.conn is not None:
            self._connection(fact.conn).faults.append(fact)

    # Topology and consumers.

    def _exchange(self, vhost: str, name: str) -> ExchangeLife:
        found = self.exchanges.get((vhost, name))
        if found is None:
            found = self.exchanges[vhost, name] = ExchangeLife(vhost, name)
        return found

    def _queue(self, vhost: str, name: str) -> QueueLife:
        """Return the queue that a fact is about: the one that was deleted, unless another was declared since."""
        found = self.queues.get((vhost, name))
        if found is None:
            gone = self.deleted_queues.get((vhost, name))
            found = gone[-1] if gone else self._new_queue(vhost, name)
        return found

    def _new_queue(self, vhost: str, name: str) -> QueueLife:
        queue = self.queues[vhost, name] = QueueLife(vhost, name)
        return queue

    def _exchange_declared(self, fact: Fact, raw: RawEvent) -> None:
        self._declared(self._exchange(fact.vhost, fact.exchange), fact)

    def _declared(self, what: ExchangeLife | QueueLife, fact: Fact) -> None:
        if what.declared:
            self.repeats.add(fact.place)
        what.declared.append(fact)

    def _exchange_deleted(self, fact: Fact, raw: RawEvent) -> None:
        place = (fact.vhost, fact.exchange)
        self._exchange(*place).deleted = fact
        del self.exchanges[place]
        self._end_bindings(("exchange", place), fact)

    def _queue_declared(self, fact: Fact, raw: RawEvent) -> None:
        place = fact.vhost, cast("str", fact.queue)
        queue = self.queues.get(place) or self._new_queue(*place)
        self._declared(queue, fact)
        queue.arguments = arguments_of(fact)
        self._acted(fact, fact.conn)
        queue.owner = None if fact.conn is None else self._connection(fact.conn)

    def _queue_deleted(self, fact: Fact, raw: RawEvent) -> None:
        queue = self._queue(fact.vhost, cast("str", fact.queue))
        queue.deleted = fact
        if self.queues.pop(queue.place, None) is not None:
            self.deleted_queues.setdefault(queue.place, []).append(queue)
        for consumer in queue.consumers:
            consumer.until = consumer.until or fact
        self._end_bindings(("queue", queue.place), fact)

    def _bound(self, fact: Fact, raw: RawEvent) -> None:
        self._acted(fact, fact.conn)
        binding = _binding(fact)
        known = self._living(("exchange", binding.source))
        if binding.identity in known:
            self.repeats.add(fact.place)
            return
        known[binding.identity] = binding
        self._living((binding.destination_kind, binding.destination))[binding.identity] = binding
        self.bindings.append(binding)
        self._exchange(*binding.source).bindings.append(binding)

    def _living(self, end: tuple[str, Place]) -> dict[object, BindingLife]:
        return self._bound_at.setdefault(end, {})

    def _unbound(self, fact: Fact, raw: RawEvent) -> None:
        gone = _binding(fact)
        binding = self._living(("exchange", gone.source)).get(gone.identity)
        if binding is not None:
            self._unbind(binding, fact)

    def _unbind(self, binding: BindingLife, fact: Fact) -> None:
        binding.until = fact
        for end in (("exchange", binding.source), (binding.destination_kind, binding.destination)):
            self._living(end).pop(binding.identity, None)

    def _end_bindings(self, end: tuple[str, Place], fact: Fact) -> None:
        for binding in list(self._living(end).values()):
            self._unbind(binding, fact)

    def _consumed(self, fact: Fact, raw: RawEvent) -> None:
        self._acted(fact, fact.conn)
        if fact.conn is not None and fact.chan is not None:
            queue, channel = self._queue(fact.vhost, cast("str", fact.queue)), self._channel(fact.conn, fact.chan)
            consumer = ConsumerLife(queue, channel, fact.consumer, fact)
            queue.consumers.append(consumer)
            channel.consumers.append(consumer)

    def _cancelled(self, fact: Fact, raw: RawEvent) -> None:
        consumer = self._consumer(self._channel_of(fact), fact.consumer)
        if consumer is not None:
            consumer.until = fact

    def _channel_of(self, fact: Fact) -> ChannelLife | None:
        number, channel = fact.conn, fact.chan
        return None if number is None or channel is None else self._channel(number, channel)

    def _consumer(self, channel: ChannelLife | None, tag: object) -> ConsumerLife | None:
        if channel is None or tag is None:
            return None
        return next((one for one in reversed(channel.consumers) if one.tag == tag), None)

    # Messages. Hot: once per event, so these read the tuple, whose layout the table of kinds gives.

    def _message(self, vhost: str, message: TracedMessage) -> MessageLife:
        found = self.messages.get(message.id)
        if found is None:
            found = self.messages[message.id] = MessageLife(message.id, vhost, message)
        return found

    def _published(self, fact: Fact, raw: RawEvent) -> None:
        life = self._message(cast("str", raw[_VHOST]), cast("TracedMessage", raw[_PUBLISHED]))
        life.published = fact
        life.facts.append(fact)
        life.publisher = self._acted(fact, cast("int | None", raw[_CONN]))

    def _answered(self, fact: Fact, raw: RawEvent) -> None:
        life = self._message(cast("str", raw[_VHOST]), fact.message)
        if fact.kind in events.ANSWERS:
            life.facts.append(fact)
            life.answer = life.answer or fact
        else:
            self._lost(life, fact)

    def _lost(self, life: MessageLife, fact: Fact) -> None:
        life.facts.append(fact)
        if fact.kind in events.RETURNS or (fact.kind in events.LOSSES and life.lost is None):
            life.lost = fact

    def _new_copy(self, number: int, life: MessageLife, queue: str) -> CopyLife:
        copy = CopyLife(number, self._queue(life.vhost, queue), life)
        self.copies[number] = life.copies[number] = copy
        return copy

    def _moved(self, fact: Fact, raw: RawEvent) -> None:
        """Take what happened to a copy. The traits of its kind say what moves."""
        vhost, queue, message, number = _OF_COPY[fact.kind](raw)
        copy = self.copies.get(number)
        if copy is None:
            life = self._message(vhost, message)
            if number is None:
                self._lost(life, fact)
                return
            copy = self._new_copy(number, life, queue)
        copy.facts.append(fact)
        _MOVES[fact.kind](self, copy, fact, raw)

    def _arrived(self, copy: CopyLife, fact: Fact, raw: RawEvent) -> None:
        copy.queue.ready[copy.number] = copy
        copy.source_number = number = cast("int | None", raw[_SRC_COPY])
        if number is not None:
            copy.source = self.copies.get(number)
            if copy.source is not None:
                copy.source.letters.append(copy)

    def _delivered(self, copy: CopyLife, fact: Fact, raw: RawEvent) -> None:
        conn, chan = cast("tuple[int | None, int | None]", raw[events.CHANNEL])
        tag = cast("object", fact.tag)
        self._acted(fact, conn)
        channel = consumer = None
        if conn is not None and chan is not None:
            channel = self._channel(conn, chan)
            consumer = self._consumer(channel, fact.get("consumer"))
        delivery = DeliveryLife(copy, fact, channel, consumer)
        copy.deliveries.append(delivery)
        if consumer is not None:
            consumer.deliveries.append(delivery)
        if channel is not None:
            channel.held[tag] = delivery
        if not copy.queue.is_stream:
            copy.queue.ready.pop(copy.number, None)
            copy.queue.unacked[copy.number] = copy
            copy.state = UNACKED

    def _settled(self, copy: CopyLife, fact: Fact, raw: RawEvent) -> None:
        conn, chan = cast("tuple[int | None, int | None]", raw[events.CHANNEL])
        self._acted(fact, conn)
        channel = None if conn is None or chan is None else self._channel(conn, chan)
        delivery = None if channel is None else channel.held.pop(fact.tag, None)
        if delivery is None or delivery.copy is not copy:
            delivery = _open_delivery(copy)
        is_end = TABLE[fact.kind].stand is not None
        if delivery is not None:
            delivery.settled = fact
            if is_end or copy.queue.is_stream:
                delivery.ended = fact
        if is_end and not copy.queue.is_stream:
            _leave(copy, fact)

    def _requeued(self, copy: CopyLife, fact: Fact, raw: RawEvent) -> None:
        copy.requeue_count += 1
        _end_delivery(copy, fact)
        copy.queue.unacked.pop(copy.number, None)
        copy.queue.ready[copy.number] = copy
        copy.state = AGAIN

    def _ended(self, copy: CopyLife, fact: Fact, raw: RawEvent) -> None:
        _end_delivery(copy, fact)
        _leave(copy, fact)


def _binding(fact: Fact) -> BindingLife:
    """Return the binding that a fact makes, or one like it that it removes."""
    ends = (fact.vhost, fact.exchange), (fact.vhost, fact.destination)
    return BindingLife(*ends, fact.destination_kind, fact.routing_key, arguments_of(fact), fact)


def _leave(copy: CopyLife, fact: Fact) -> None:
    """Let a copy leave its queue for good."""
    copy.queue.ready.pop(copy.number, None)
    copy.queue.unacked.pop(copy.number, None)
    copy.state = ended_as(fact)


def _open_delivery(copy: CopyLife) -> DeliveryLife | None:
    last = copy.deliveries[-1] if copy.deliveries else None
    return last if last is not None and last.ended is None else None


def _end_delivery(copy: CopyLife, fact: Fact) -> None:
    """End the delivery of a copy that its client still holds."""
    delivery = _open_delivery(copy)
    if delivery is not None:
        delivery.ended = fact
        held = {} if delivery.channel is None else delivery.channel.held
        if held.get(delivery.fact.tag) is delivery:
            del held[delivery.fact.tag]


def _move_of(kind: str) -> _Move:
    if kind in events.ARRIVALS:
        return Timeline._arrived
    if kind in events.REQUEUES:
        return Timeline._requeued
    if kind in events.DELIVERIES:
        return Timeline._delivered
    return Timeline._settled if kind in events.SETTLING else Timeline._ended


_Handler = Callable[[Timeline, Fact, RawEvent], None]
_Move = Callable[[Timeline, CopyLife, Fact, RawEvent], None]
# What takes the events of each kind, and for those about copies where their tuples have what these are about.
_HANDLERS: Final[dict[str, _Handler]] = {
    events.CONN_OPEN: Timeline._connection_opened,
    events.CONN_CLOSE: Timeline._connection_closed,
    events.CHAN_OPEN: Timeline._channel_opened,
    events.CHAN_CLOSE: Timeline._channel_closed,
    events.REFUSED: Timeline._refused,
    events.EXCHANGE_DECLARE: Timeline._exchange_declared,
    events.EXCHANGE_DELETE: Timeline._exchange_deleted,
    events.QUEUE_DECLARE: Timeline._queue_declared,
    events.QUEUE_DELETE: Timeline._queue_deleted,
    events.BIND: Timeline._bound,
    events.UNBIND: Timeline._unbound,
    events.CONSUME: Timeline._consumed,
    events.CANCEL: Timeline._cancelled,
    events.QOS: Timeline._limited,
    events.CALLED: Timeline._called,
    events.TEST_START: Timeline._began,
    events.TEST_END: Timeline._test_ended,
    events.FAULT: Timeline._fault,
    **dict.fromkeys((*events.ANSWERS, *events.RETURNS), Timeline._answered),
    **dict.fromkeys(events.ABOUT_COPIES, Timeline._moved),
    events.PUBLISHED: Timeline._published,
}
_MOVES: Final[dict[str, _Move]] = {kind: _move_of(kind) for kind in events.ABOUT_COPIES}
_OF_COPY: Final = {
    kind: itemgetter(*(POSITIONS[kind][name] for name in ("vhost", "queue", "message", "copy")))
    for kind in events.ABOUT_COPIES
}
