"""The base of every queue that stores messages: its place in a vhost, its flags, and its interface.

`Queue` (classic and quorum) and `StreamQueue` extend it. A `ReplyQueue` does not, because it stores nothing. Vhosts,
handlers and views use queues through this class only, so a new queue type implements these methods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, NoReturn, Protocol

from leveret.core.model.errors import ResourceLocked

if TYPE_CHECKING:
    from leveret.core.model.message import Message, QueueEntry
    from leveret.core.model.ports import ConnectionPort, Subscriber, VirtualHostPort
    from leveret.core.model.queues.consumer import Consumer
    from leveret.core.model.queues.queue_types import QueueType
    from leveret.core.model.queues.settings import QueueSettings
    from leveret.core.wire.values import Table


class ReadyEntries(Protocol):
    """Ready entries in order, next first."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[QueueEntry]: ...


class QueueSpec(NamedTuple):
    """The specification of a new queue: its place, flags and settings, after all checks."""

    vhost: VirtualHostPort
    name: str
    type: QueueType
    durable: bool
    auto_delete: bool
    # None unless it is exclusive.
    exclusive_owner: ConnectionPort | None
    arguments: Table
    settings: QueueSettings


class StoredQueue:
    """A queue of one vhost, of any type that stores messages."""

    is_queue: ClassVar[bool] = True
    # Whether basic.recover and tx.commit take effect before their answers, as where the channel itself reads the queue.
    settles_at_once: ClassVar[bool] = False
    # Whether the deliveries of a closed channel return consumer by consumer, not in order of delivery.
    returns_by_consumer: ClassVar[bool] = False
    # Whether its prefetch also limits a consumer that does not acknowledge, until its channel has settled for it.
    limits_automatic_consumers: ClassVar[bool] = False
    # Whether it may refuse a publisher, independent of the message (`refuses_publisher`).
    can_refuse_publishers: ClassVar[bool] = False
    # Whether a commit settles deliveries there before it publishes.
    settles_first_at_commit: ClassVar[bool] = False
    # Whether a commit acknowledges deliveries there before it publishes, and settles the others after.
    acks_overtake_at_commit: ClassVar[bool] = False
    # Whether its consumers obey a prefetch limit that they share with their channel; otherwise it refuses them.
    shares_prefetch: ClassVar[bool] = False
    # Whether dead letters from here bring failed deliveries along in the versions where only quorum queues do so.
    hands_on_failures: ClassVar[bool] = False
    # Whether the queue adds headers to deliveries (`delivered_octets`).
    edits_deliveries: ClassVar[bool] = False

    __slots__ = (
        "arguments",
        "auto_delete",
        "consumers",
        "durable",
        "exclusive_owner",
        "hooks",
        "is_deleted",
        "is_polled",
        "lost_client",
        "name",
        "node",
        "settings",
        "type",
        "vhost",
    )

    def __init__(self, spec: QueueSpec) -> None:
        self.vhost = spec.vhost
        self.node = spec.vhost.node
        self.hooks = spec.vhost.node.hooks
        self.name = spec.name
        self.type = spec.type
        self.durable = spec.durable
        self.auto_delete = spec.auto_delete
        self.exclusive_owner = spec.exclusive_owner
        self.arguments = spec.arguments
        self.settings = spec.settings
        # In order of registration, including those that wait for a single active consumer to go.
        self.consumers: list[Consumer] = []
        self.is_deleted = False
        # Whether a client has looked into it by basic.get.
        self.is_polled = False
        # The client with whose lost connection the last consumer went, until a consumer arrives.
        self.lost_client: tuple[str, int] | None = None

    @property
    def type_name(self) -> str:
        """Its type: "classic", "quorum" or "stream"."""
        return self.type.name

    @property
    def is_exclusive(self) -> bool:
        """Whether it belongs to one connection."""
        return self.exclusive_owner is not None

    @property
    def title(self) -> str:
        """Its description in RabbitMQ's texts."""
        return self.vhost.title_of("queue", self.name)

    @property
    def ready(self) -> ReadyEntries:
        """The messages that a consumer could get, next first."""
        raise NotImplementedError

    @property
    def unacked(self) -> Collection[object]:
        """The unsettled deliveries."""
        raise NotImplementedError

    @property
    def declared_consumer_count(self) -> int:
        """The number of consumers in queue.declare-ok."""
        return len(self.consumers)

    def refuse_others(self, connection: ConnectionPort | None) -> None:
        """Refuse a connection that does not own this exclusive queue; None is the test itself, which may use it."""
        if self.exclusive_owner is not None and connection is not None and self.exclusive_owner is not connection:
            self.refuse_as_locked()

    def refuse_as_locked(self) -> NoReturn:
        """Refuse the use of an exclusive queue that belongs to another connection."""
        raise ResourceLocked(
            f"cannot obtain exclusive access to locked {self.title}. It could be originally declared on another "
            "connection or the exclusive property value does not match that of the original declaration."
        ).about("in_use", kind="queue", name=self.name)

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Take a message in, or refuse it (False)."""
        raise NotImplementedError

    def suspend(self, consumer: Consumer, late_count: int) -> None:
        """Give nothing to a consumer that held this many deliveries too long. A stream sets no limit."""

    def has_taken_back(self, entry: QueueEntry, consumer: Consumer) -> bool:
        """Return whether a delivery has returned because its consumer held it too long."""
        return False

    def on_late_ack(self, consumer: Consumer) -> None:
        """Note that a suspended consumer acknowledged a delivery that it held too long."""

    @property
    def may_refuse_publishers(self) -> bool:
        """Whether it takes nothing from some publisher now, or will not once it is full."""
        return False

    def refuses_publisher(self, publisher: object) -> bool:
        """Return whether it currently takes nothing from this publisher."""
        return False

    def get(self, subscriber: Subscriber | None = None, *, no_ack: bool) -> QueueEntry | None:
        """Take the head out for basic.get; return None if the queue is empty."""
        raise NotImplementedError

    def delivery_count_of(self, entry: QueueEntry) -> int:
        """Return the deliveries of an entry that failed, as x-delivery-count shows them in a quorum queue."""
        if self.node.compat.counts_every_return and entry.acquired_count:
            return entry.acquired_count
        return entry.delivery_count

    def delivered_octets(self, entry: QueueEntry, *, is_get: bool) -> bytes | None:
        """Return encoded properties to deliver instead of the message's own, None to deliver its own."""
        return None

    def dead_letter_at_least_once(self, entry: QueueEntry, reason: str, exchange_name: str) -> bool:
        """Take over the dead-lettering of a message until it has arrived; return False if the type does not."""
        return False

    def acknowledge(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        """End a delivery: the message is done."""
        raise NotImplementedError

    def discard(self, entry: QueueEntry, consumer: Consumer | None, *, is_failure: bool) -> None:
        """End a delivery that the client refused without requeue."""
        raise NotImplementedError

    def requeue(self, returns: Sequence[tuple[QueueEntry, Consumer | None]], reason: str, *, is_failure: bool) -> None:
        """End deliveries and return their messages to the queue."""
        raise NotImplementedError

    def refuse_subscription(self, *, prefetch_count: int, no_ack: bool) -> None:
        """Refuse a consumer because of what it asks for, before it is made."""

    def add_consumer(self, consumer: Consumer) -> Consumer:
        """Add a consumer, or revive an earlier one, and return it. Raises AmqpError if the type forbids it."""
        raise NotImplementedError

    def start_consumer(self, consumer: Consumer) -> None:
        """Start to deliver, or go on, after consume-ok has been sent."""
        raise NotImplementedError

    def resume_consumers(self, subscriber: Subscriber) -> None:
        """Go on with the consumers of a channel that a limit held up, if they share such a limit."""

    def hold(self) -> None:
        """Hand out nothing until the current work is done, if returned messages can be delivered again here."""

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer; its unacknowledged deliveries stay with its channel."""
        raise NotImplementedError

    def can_deliver_to(self, consumer: Consumer) -> bool:
        """Return whether a message is ready and this consumer has room for it."""
        return len(self.ready) > 0 and consumer.has_room()

    def purge(self) -> int:
        """Drop the ready messages; return how many."""
        raise NotImplementedError

    def refuse_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Refuse a deletion whose conditions are not met, or whose conditions the type does not support."""

    def delete(self, reason: str | None = None) -> int:
        """Delete the queue; return how many ready messages were lost."""
        return self.vhost.remove_queue(self, reason)

    def closed(self) -> int:
        """Drop everything and cancel the consumers, because the queue is deleted.

        Return how many ready messages were lost. Called by the vhost only.
        """
        raise NotImplementedError

    def cancel_consumers(self) -> None:
        """Remove every consumer; their clients are notified after the answer to the method that deleted the queue."""
        # A channel keeps its consumers of a queue in the order of their tags (rabbit_channel, seen on 4.3).
        for consumer in sorted(self.consumers, key=lambda it: it.tag.encode("utf-8", "surrogateescape")):
            consumer.cancel()
            self.node.work.append(partial(consumer.subscriber.cancelled, consumer, "queue deleted"))
        self.consumers.clear()

    def apply(self, settings: QueueSettings) -> None:
        """Take on new effective settings."""
        raise NotImplementedError

    def forget_transient(self) -> None:
        """Drop what does not survive a restart of the node."""
        raise NotImplementedError

    def on_declared(self) -> None:
        """Take note that the queue was declared."""

    def tap_copy(self, kind: str, entry: QueueEntry, *fields: object) -> None:
        """Record an event about one copy."""
        tap = self.hooks.tap
        if tap is not None:
            tap((kind, self.node.now, self.vhost.name, self.name, entry.message, entry.copy, *fields))
