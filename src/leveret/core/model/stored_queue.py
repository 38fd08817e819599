"""What every queue that keeps messages has in common: its place in a vhost, its flags, and what others ask of it.

A `Queue` (classic or quorum) and a `StreamQueue` are such queues; a `ReplyQueue` is none, for it keeps nothing. Vhosts,
handlers and views know queues by this class alone, so a type that answers these questions is one they can use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, NoReturn, Protocol

from leveret.core.model.errors import ResourceLocked
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.consumer import Consumer
    from leveret.core.model.message import Message, QueueEntry
    from leveret.core.model.ports import ConnectionPort, Subscriber, VirtualHostPort
    from leveret.core.model.queue_types import QueueType
    from leveret.core.model.settings import QueueSettings
    from leveret.core.wire.values import Table


class ReadyEntries(Protocol):
    """Entries in order, next first."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[QueueEntry]: ...


class QueueSpec(NamedTuple):
    """What a queue is made from: its place, its flags and its settings, once everything about them is checked."""

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
    """A queue of one vhost, of any type that keeps messages."""

    is_queue: ClassVar[bool] = True
    # Whether basic.recover-ok waits for what recovering causes.
    recovers_at_once: ClassVar[bool] = False
    # Whether what a channel held when it ended comes back consumer by consumer, and not in order of delivery.
    returns_by_consumer: ClassVar[bool] = False
    # Whether it may refuse a publisher, whatever the message (`refuses_publisher`).
    chooses_publishers: ClassVar[bool] = False
    # Whether what a commit settles there comes before what it publishes.
    settles_first_at_commit: ClassVar[bool] = False
    # Whether what a commit acknowledges there, and nothing else that it settles, comes before what it publishes.
    acks_overtake_at_commit: ClassVar[bool] = False
    # Whether deliveries carry headers of the queue's (`delivered_octets`).
    edits_deliveries: ClassVar[bool] = False

    __slots__ = (
        "arguments",
        "auto_delete",
        "consumers",
        "durable",
        "exclusive_owner",
        "hooks",
        "is_deleted",
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
        # In order of registration; with a single active consumer also the waiting ones.
        self.consumers: list[Consumer] = []
        self.is_deleted = False

    @property
    def type_name(self) -> str:
        """Its type: "classic", "quorum" or "stream"."""
        return self.type.name

    @property
    def is_exclusive(self) -> bool:
        """Whether it belongs to one connection."""
        return self.exclusive_owner is not None

    @property
    def place(self) -> str:
        """Its name as RabbitMQ's texts give it."""
        return f"queue '{self.name}' in vhost '{self.vhost.name}'"

    @property
    def ready(self) -> ReadyEntries:
        """What a consumer could get, next first."""
        raise NotImplementedError

    @property
    def unacked(self) -> Collection[object]:
        """What is handed out and not settled."""
        raise NotImplementedError

    @property
    def declared_consumer_count(self) -> int:
        """How many consumers queue.declare-ok tells of."""
        return len(self.consumers)

    def refuse_others(self, connection: ConnectionPort | None) -> None:
        """Refuse a connection that does not own this exclusive queue; None is the test itself, which may."""
        if self.exclusive_owner is not None and connection is not None and self.exclusive_owner is not connection:
            self.refuse_as_locked()

    def refuse_as_locked(self) -> NoReturn:
        """Refuse the use of an exclusive queue that belongs to another connection."""
        raise ResourceLocked(
            f"cannot obtain exclusive access to locked {self.place}. It could be originally declared on another "
            "connection or the exclusive property value does not match that of the original declaration."
        )

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Take a message in, or refuse it (False)."""
        raise NotImplementedError

    def refuses_publisher(self, publisher: object) -> bool:
        """Whether it takes nothing from whoever publishes, just now."""
        return False

    def get(self, subscriber: Subscriber | None = None, *, no_ack: bool) -> QueueEntry | None:
        """Take the head out for basic.get, None when nothing waits."""
        raise NotImplementedError

    def delivered_octets(self, entry: QueueEntry, *, is_get: bool) -> bytes | None:
        """Properties to deliver instead of the message's own, None for those."""
        return None

    def dead_letters_surely(self, entry: QueueEntry, reason: str, exchange_name: str) -> bool:
        """Whether the type sees to it itself that a dying message arrives."""
        return False

    def acknowledge(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        """End a delivery: the message is done."""
        raise NotImplementedError

    def discard(self, entry: QueueEntry, consumer: Consumer | None, *, is_failure: bool) -> None:
        """End a delivery by a refusal that does not want the message back."""
        raise NotImplementedError

    def requeue(self, returns: Sequence[tuple[QueueEntry, Consumer | None]], reason: str, *, is_failure: bool) -> None:
        """End deliveries that want their messages back."""
        raise NotImplementedError

    def refuse_subscription(self, *, prefetch_count: int, no_ack: bool) -> None:
        """Refuse a consumer by what it asks for, before it is made."""

    def refuse_shared_prefetch(self) -> None:
        """Refuse a consumer on a channel with one prefetch limit for all, where the type does not support it."""

    def add_consumer(self, consumer: Consumer) -> Consumer:
        """Let a consumer in, or the one it was before; raises AmqpError where the type forbids it."""
        raise NotImplementedError

    def start_consumer(self, consumer: Consumer) -> None:
        """Begin to deliver, or go on: after the client has been told that its consumer is there."""
        raise NotImplementedError

    def ring_if_room(self, consumer: Consumer) -> None:
        """Let a consumer that may have got room wait for its turn, where consumers take turns."""

    def hold(self) -> None:
        """Hand out nothing until the work at hand is done, where what comes back may be handed out anew."""

    def remove_consumer(self, consumer: Consumer) -> None:
        """Let a consumer go; what it holds stays with its channel."""
        raise NotImplementedError

    def can_deliver_to(self, consumer: Consumer) -> bool:
        """Whether something waits that this consumer has room for."""
        return len(self.ready) > 0 and consumer.has_room()

    def purge(self) -> int:
        """Forget what is ready; the number of messages forgotten."""
        raise NotImplementedError

    def refuse_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Refuse what the conditions of queue.delete forbid, or refuse the conditions, where the type heeds them."""

    def delete(self, reason: str | None = None) -> int:
        """Delete the queue; the number of ready messages that went with it."""
        return self.vhost.remove_queue(self, reason)

    def closed(self) -> int:
        """End of the queue: forget what it held and tell its consumers. Called by the vhost alone."""
        raise NotImplementedError

    def tap_dropped(self, entry: QueueEntry, reason: str) -> None:
        """Record that a copy was lost for good."""
        self.tap_copy(events.DROPPED, entry, reason)

    def cancel_consumers(self) -> None:
        """Part with every consumer: the client hears of it after the answer to whatever deleted the queue."""
        # A channel keeps its consumers of a queue in the order of their tags (rabbit_channel, seen on 4.3).
        for consumer in sorted(self.consumers, key=lambda it: it.tag.encode("utf-8", "surrogateescape")):
            consumer.is_cancelled = True
            self.node.work.append(partial(consumer.subscriber.cancelled, consumer, "queue deleted"))
        self.consumers.clear()

    def apply(self, settings: QueueSettings) -> None:
        """Take on new effective settings."""
        raise NotImplementedError

    def forget_transient(self) -> None:
        """Lose what does not survive a restart of the node."""
        raise NotImplementedError

    def used(self) -> None:
        """Somebody declared it."""

    def tap_copy(self, kind: str, entry: QueueEntry, *fields: object) -> None:
        """Record what happened to one copy."""
        tap = self.hooks.tap
        if tap is not None:
            tap((kind, self.node.now, self.vhost.name, self.name, entry.message, entry.copy, *fields))
