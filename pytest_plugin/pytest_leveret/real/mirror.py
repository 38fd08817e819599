"""The mirror: leveret's model of what is on a real server, made of what the server and its clients said.

Topology and consumers change in it when the server has agreed. A message enters a queue when the server's firehose says
so, or when it comes out of that queue; it leaves when it is delivered and settled. So views, assertions and waits read
the mirror as they read a broker of leveret's own. The model never hands out, expires or dead-letters anything by
itself: its queues are held, and nothing is enqueued by its rules.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.core.model.dead_letters.dead_letter import EXPIRED, MAXLEN
from leveret.core.model.dead_letters.death import REJECTED
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queues.queue import Queue
from leveret.core.model.queues.quorum import QuorumQueue
from leveret.core.model.reply_to import PREFIX
from leveret.core.model.vhost import NO_CLIENT
from leveret.core.protocol.channel import Channel
from leveret.core.wire.errors import WireError
from leveret.core.wire.methods import Method
from leveret.core.wire.properties import Properties
from leveret.scripted.own_publisher import EveryRight
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.ports import VirtualHostPort
    from leveret.core.model.queues.consumer import Consumer
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.core.model.vhost import VirtualHost
    from leveret.core.protocol.connection import Connection
    from leveret.core.protocol.delivery import Delivery

# The reasons for a return that count as failed deliveries.
_FAILURES: Final = ("rejected", "channel_closed")
# The server's name of a connection, and the number of a channel.
Line = tuple[str, int]


class Sighting(NamedTuple):
    """A message as the server shows it: in a publish, in a delivery, or in a queue."""

    exchange: str
    routing_key: str
    properties: bytes
    body: bytes
    redelivered: bool = False

    def is_like(self, message: Message) -> bool:
        """Return whether it may be that message. Queues add headers, so these do not count."""
        if (self.exchange, self.routing_key, self.body) != (message.exchange, message.routing_key, message.body):
            return False
        own, other = decoded(self.properties), message.properties
        return (own.message_id, own.correlation_id) == (other.message_id, other.correlation_id)

    def message(self, message_id: int) -> Message:
        """Return it as a message of that number."""
        properties = decoded(self.properties)
        return Message(
            message_id, self.exchange, self.routing_key, properties, self.properties, self.body, (self.routing_key,)
        )


class Publish:
    """A publish that a client has sent and the server has not confirmed to have routed."""

    def __init__(self, vhost: VirtualHost, message: Message, fields: tuple[object, ...], *, is_mandatory: bool) -> None:
        self.vhost = vhost
        self.message = message
        self.is_mandatory = is_mandatory
        # Connection, channel and number in confirm mode.
        self._fields = fields
        # Whether the server has shown that it took it.
        self.is_accepted = False
        # The queues from which it has come out.
        self.queues: set[str] = set()

    def accept(self) -> Message:
        """Record that the server took it, the first time."""
        if not self.is_accepted:
            self.is_accepted = True
            connection, channel, tag = self._fields
            _tap(self.vhost, events.PUBLISHED, connection, channel, self.message, tag)
        return self.message


class MirroredDeath(NamedTuple):
    """A copy that was dead-lettered, and the queues that its letters have reached."""

    entry: QueueEntry
    reached: set[str]


class Mirror:
    """The state of a server, as far as the tests' virtual hosts go."""

    def __init__(self, node: Node) -> None:
        self.node: Final = node
        # In the order in which clients sent them.
        self._publishes: dict[Line, deque[Publish]] = {}
        self._deaths: dict[StoredQueue, list[MirroredDeath]] = {}
        # What a queue no longer showed, for the case that it comes back.
        self._missed: dict[StoredQueue, list[QueueEntry]] = {}
        # Mandatory publishes that the firehose has shown. The server may still send them back.
        self._unrouted: dict[Line, list[Publish]] = {}
        # Until when returned copies wait for another try, by the test's clock and by real time.
        self._delayed: dict[int, tuple[int, float]] = {}
        # When copies entered their queues, in seconds of real time.
        self.entered: dict[int, float] = {}
        # Copies that the test has looked at on the server, which flagged them as redelivered.
        self.peeked: set[int] = set()

    def hold_queues(self) -> None:
        """Leave it to the server to hand out what is in queues."""
        for vhost in self.node.vhosts.values():
            for queue in vhost.queues.values():
                if isinstance(queue, Queue):
                    queue.is_held = True

    # Publishing.

    def published(
        self, line: Line, vhost: VirtualHost, content: Sighting, fields: tuple[object, ...], *, is_mandatory: bool
    ) -> Publish:
        """Note what a client has sent, to be recorded once the server has taken it."""
        publish = Publish(vhost, content.message(self.node.new_message_id()), fields, is_mandatory=is_mandatory)
        self._publishes.setdefault(line, deque()).append(publish)
        return publish

    def routed(self, line: Line, content: Sighting, queue_names: Iterable[str]) -> None:
        """Record what the firehose says about a publish."""
        waiting = self._publishes.get(line, deque())
        while waiting:
            publish = waiting.popleft()
            # The server has refused those before it.
            if content.is_like(publish.message):
                self._enqueue_routed(publish, queue_names)
                if publish.is_mandatory:
                    self._unrouted.setdefault(line, []).append(publish)
                return

    def returned(self, line: Line, content: Sighting) -> Message | None:
        """Return the message that the server sends back; None if the client has not sent it."""
        waiting = [publish for publish in self._publishes.get(line, ()) if publish.is_mandatory]
        sent = [*self._unrouted.get(line, ()), *waiting]
        publish = next((publish for publish in sent if content.is_like(publish.message)), None)
        return None if publish is None else publish.accept()

    def replied(self, vhost: VirtualHost, content: Sighting) -> QueueEntry:
        """Return an entry for a direct reply, which passes through no queue."""
        self.node.last_copy = copy = self.node.last_copy + 1
        publishes = [publish for waiting in self._publishes.values() for publish in waiting]
        sent = next((it for it in publishes if it.vhost is vhost and content.is_like(it.message)), None)
        message = content.message(self.node.new_message_id()) if sent is None else sent.accept()
        _tap(vhost, events.ENQUEUED, content.routing_key, message, copy, None, None)
        return QueueEntry(message, copy, copy, self.node.now)

    def _enqueue_routed(self, publish: Publish, queue_names: Iterable[str]) -> None:
        message, vhost = publish.accept(), publish.vhost
        # For the default exchange, the firehose names the key, whether it is a queue or not.
        queues = [vhost.queues[name] for name in queue_names if name in vhost.queues]
        for queue in queues:
            if queue.name not in publish.queues:
                self._put(queue, self._enter(queue, message))
        if not (queues or publish.is_mandatory or message.routing_key.startswith(PREFIX)):
            vhost.lost(message)

    def _enter(self, queue: StoredQueue, message: Message, src_copy: int | None = None) -> QueueEntry:
        self.node.last_copy = copy = self.node.last_copy + 1
        entry = QueueEntry(message, copy, copy, self.node.now)
        self.entered[copy] = time.monotonic()
        _tap(queue.vhost, events.ENQUEUED, queue.name, message, copy, src_copy, None)
        return entry

    def _put(self, queue: StoredQueue, entry: QueueEntry) -> None:
        if isinstance(queue, Queue):
            entry.priority = queue.priority_of(entry.message)
            queue.ready.append(entry)

    # Deliveries.

    def leave(self, queue: StoredQueue, content: Sighting) -> QueueEntry:
        """Return the entry of a queue that the server delivers, and take it out."""
        entry = self._ready_entry(queue, content.is_like) or self._new_entry(queue, content)
        is_flagged = content.redelivered and entry.copy not in self.peeked
        entry.redelivered = entry.redelivered or is_flagged
        return entry

    def _ready_entry(self, queue: StoredQueue, is_it: Callable[[Message], bool]) -> QueueEntry | None:
        wanted = next((entry.copy for entry in queue.ready if is_it(entry.message)), None)
        if wanted is None:
            return None
        if not isinstance(queue, Queue):
            return next(entry for entry in queue.ready if entry.copy == wanted)
        return queue.ready.take_out(lambda entry: entry.copy == wanted)[0]

    def _new_entry(self, queue: StoredQueue, content: Sighting) -> QueueEntry:
        """Return an entry for a message that the mirror has not yet seen there: a publish, a letter, or neither."""
        for missed in self._missed.get(queue, ()):
            if content.is_like(missed.message):
                self._missed[queue].remove(missed)
                return missed
        for publish in [publish for waiting in self._publishes.values() for publish in waiting]:
            if publish.vhost is queue.vhost and queue.name not in publish.queues and content.is_like(publish.message):
                publish.queues.add(queue.name)
                return self._enter(queue, publish.accept())
        dead = self._dead(queue, content)
        if dead is None:
            return self._enter(queue, content.message(self.node.new_message_id()))
        return self._enter(queue, content.message(dead.message.id), dead.copy)

    def _dead(self, queue: StoredQueue, content: Sighting) -> QueueEntry | None:
        """Return the copy that a dead letter comes from, by its header x-death."""
        headers = decoded(content.properties).headers
        deaths = None if headers is None else headers.to_python().get("x-death")
        newest = deaths[0] if isinstance(deaths, list) and deaths and isinstance(deaths[0], dict) else {}
        source = queue.vhost.queues.get(str(newest.get("queue")))
        if source is None:
            return None
        reason = str(newest.get("reason"))
        for death in self._deaths.get(source, ()):
            if death.entry.message.body == content.body and queue.name not in death.reached:
                death.reached.add(queue.name)
                return death.entry
        entry = self._ready_entry(source, lambda message: message.body == content.body)
        if entry is None:
            missed = self._missed.get(source, [])
            entry = next((entry for entry in missed if entry.message.body == content.body), None)
            if entry is None:
                return None
            missed.remove(entry)
        self.die(source, entry, reason).reached.add(queue.name)
        return entry

    # Ends.

    def die(self, queue: StoredQueue, entry: QueueEntry, reason: str) -> MirroredDeath:
        """Record that a copy was dead-lettered."""
        if reason == EXPIRED:
            queue.tap_copy(events.EXPIRED, entry)
        settings, message = queue.settings, entry.message
        key = settings.dead_letter_routing_key
        where = (settings.dead_letter_exchange or "", message.routing_key if key is None else key)
        queue.tap_copy(events.DEAD_LETTERED, entry, reason, *where)
        death = MirroredDeath(entry, set())
        self._deaths.setdefault(queue, []).append(death)
        return death

    def settle(self, channel: Channel, kind: str, deliveries: Sequence[Delivery], method: Method, *, way: str) -> None:
        """Record what a client does with deliveries: "ack", "requeue" or "discard"."""
        for delivery in deliveries:
            queue, entry = delivery.queue, delivery.entry
            if queue.is_deleted:
                continue
            is_multiple = getattr(method, "multiple", False)
            fields = (delivery.tag, is_multiple, deliveries[-1].tag if is_multiple else None)
            channel.tap(kind, queue.name, entry.message, entry.copy, *fields, *((None,) if way == "ack" else ()))
            self.let_go(delivery)
            if way == "requeue":
                self.requeue(delivery, kind)
            elif way == "discard":
                self._end(queue, entry, REJECTED)

    def _end(self, queue: StoredQueue, entry: QueueEntry, reason: str) -> None:
        """Record that a copy was dead-lettered, or has ended where its queue names no exchange that exists."""
        if queue.settings.dead_letter_exchange in queue.vhost.exchanges:
            self.die(queue, entry, reason)
        elif reason == EXPIRED:
            queue.tap_copy(events.EXPIRED, entry)
        else:
            queue.tap_copy(events.DROPPED, entry, reason)

    def let_go(self, delivery: Delivery) -> None:
        """Take a delivery off its queue and its consumer."""
        if isinstance(delivery.queue, Queue):
            delivery.queue.unacked.pop(delivery.entry.copy, None)
        if delivery.consumer is not None:
            delivery.consumer.unacked_count -= 1

    def requeue(self, delivery: Delivery, reason: str) -> None:
        """Return a delivery to its queue."""
        queue, entry = delivery.queue, delivery.entry
        entry.redelivered = True
        entry.acquired_count += 1
        is_failure = reason in _FAILURES
        entry.delivery_count += is_failure
        queue.tap_copy(events.REQUEUED, entry, reason)
        delay_us = queue.retry_delay_us(entry, is_failure=is_failure) if isinstance(queue, QuorumQueue) else 0
        if delay_us:
            # It comes out again when the delay is over.
            self._missed.setdefault(queue, []).append(entry)
            self._delayed[entry.copy] = (self.node.now + delay_us, time.monotonic() + delay_us / 1_000_000)
        elif isinstance(queue, Queue):
            queue.ready.put_back([entry])

    # What queues show.

    def show(self, shown: Sequence[tuple[Queue, Sequence[Sighting]]]) -> None:
        """Take over what queues hold on the server, in order, and find out what became of the rest."""
        kept: list[tuple[Queue, list[QueueEntry | Sighting]]] = []
        for queue, contents in shown:
            left = queue.ready.clear()
            entries: list[QueueEntry | Sighting] = []
            for content in contents:
                entry = next((entry for entry in left if content.is_like(entry.message)), None)
                if entry is not None:
                    left.remove(entry)
                entries.append(content if entry is None else entry)
            self._missed.setdefault(queue, []).extend(left)
            kept.append((queue, entries))
        for queue, entries in kept:
            for item in entries:
                entry = self._new_entry(queue, item) if isinstance(item, Sighting) else item
                self._put(queue, entry)
                self.peeked.add(entry.copy)
        for queue, _ in shown:
            for entry in list(self._missed[queue]):
                if self._ended(queue, entry):
                    self._missed[queue].remove(entry)

    def _ended(self, queue: Queue, entry: QueueEntry) -> bool:
        """Record the end of an entry that its queue no longer holds, if its queue has a reason to end it."""
        has_ttl = ttl_of(queue, entry) is not None
        if has_ttl or queue.settings.is_limited:
            self._end(queue, entry, EXPIRED if has_ttl else MAXLEN)
        return has_ttl or queue.settings.is_limited

    # Time.

    def deadlines(self) -> list[Deadline]:
        """Return what the server does by itself later on: messages that expire, and queues."""
        now_us, now_s, dues = self.node.now, time.monotonic(), []
        for vhost in self.node.vhosts.values():
            for queue in vhost.queues.values():
                settings = queue.settings
                if settings.expires_us is not None and not queue.consumers:
                    left_s = settings.expires_us / 1_000_000
                    dues.append(Deadline(queue.name, now_us + settings.expires_us, left_s))
                for entry in self._missed.get(queue, ()):
                    if entry.copy in self._delayed:
                        at, end_s = self._delayed[entry.copy]
                        dues.append(Deadline((entry.copy, entry.acquired_count), at, max(0, end_s - now_s)))
                for entry in queue.ready:
                    ttl_us = ttl_of(queue, entry)
                    if ttl_us is not None:
                        left_s = ttl_us / 1_000_000 - (now_s - self.entered.get(entry.copy, now_s))
                        dues.append(Deadline(entry.copy, entry.enqueued_at + ttl_us, max(0, left_s)))
        return sorted(dues, key=lambda due: due.at)


class Deadline(NamedTuple):
    """What the server is to do by itself: about a copy, or a queue; by the test's clock, and by real time."""

    about: object
    at: int
    left_s: float


def ttl_of(queue: StoredQueue, entry: QueueEntry) -> int | None:
    """Return how long a message may stay in a queue, in microseconds; None for any time."""
    ttl_us, expiration = queue.settings.message_ttl_us, entry.message.properties.expiration
    own_us = int(expiration) * 1000 if expiration is not None and expiration.isdigit() else None
    spans = [span for span in (ttl_us, own_us) if span is not None]
    return min(spans, default=None)


class MirroredChannel(Channel):
    """A channel of a client of the server, or of the test itself. It sends nothing, and hands nothing out."""

    __slots__ = ("mirror",)

    def __init__(self, connection: Connection, number: int, mirror: Mirror) -> None:
        super().__init__(connection, number)
        self.mirror = mirror
        self.is_limited = True
        # The server has checked them.
        self.rights = EveryRight("", connection.vhost)
        if not connection.is_client:
            self.origin = NO_CLIENT

    def queue(self, name: str) -> StoredQueue | None:
        """Return a queue, if it exists. An empty name stands for the last one that was declared here."""
        return self.vhost.queues.get(name or self.last_queue_name or "")

    def send(self, method: Method) -> None:
        """Send nothing: the server has."""

    def has_room_for(self, consumer: Consumer) -> bool:
        """Return False, because the server hands messages out."""
        return False

    def _requeue_ended(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            self.mirror.let_go(delivery)
            if not delivery.queue.is_deleted:
                self.mirror.requeue(delivery, "channel_closed")


def decoded(octets: bytes) -> Properties:
    """Return properties; those that cannot be decoded are empty."""
    try:
        return Properties.decode(octets or bytes(2))
    except WireError:
        return Properties()


def _tap(vhost: VirtualHostPort, kind: str, *fields: object) -> None:
    tap = vhost.node.hooks.tap
    if tap is not None:
        tap((kind, vhost.node.now, vhost.name, *fields))
