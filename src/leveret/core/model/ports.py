"""The ports of the model: what its parts need from others that they must not know.

Through `ConnectionPort`, `Subscriber` and `ReplyTarget` the model talks to a connection and a channel; the protocol
layer implements them. `VirtualHostPort` is what a queue needs of its virtual host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from leveret.core.model.errors import AmqpError
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.ready import WaitingMessage
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.runtime import Runtime
from leveret.core.wire.values import Table


class ConnectionPort(Protocol):
    """A connection, as far as the model needs it: as an owner, and as a receiver of notices."""

    number: int
    user: str
    # Host and port of the two ends.
    peer: tuple[str, int]
    local: tuple[str, int]
    mechanism: str
    is_secure: bool
    client_properties: Table
    channel_max: int
    frame_max: int
    heartbeat_s: int

    @property
    def address_name(self) -> str:
        """RabbitMQ's name for it: both ends."""

    @property
    def client_name(self) -> str:
        """The client's name for it."""

    @property
    def channel_count(self) -> int:
        """The number of its open channels."""

    @property
    def vhost_name(self) -> str:
        """The name of its virtual host."""

    def refuse(self, channel_number: int, error: AmqpError) -> None:
        """Refuse what the client asked for. A hard error, or channel 0, closes the connection."""

    def unblock(self) -> None:
        """Let the connection publish again, because the last alarm was cleared."""

    def shut_down(self, error: AmqpError) -> None:
        """Close the connection without waiting for the client's answer."""


class Subscriber(Protocol):
    """A channel, as a consumer sees it."""

    # Whether callers have to ask `has_room_for`: the channel has a limit beside those of its consumers.
    is_limited: bool

    def has_room_for(self, consumer: Consumer) -> bool:
        """Return whether the channel as a whole may take another delivery for a consumer (a shared prefetch limit)."""

    def hold_up(self, queue: StoredQueue) -> None:
        """Let a queue wait until the channel as a whole has room again."""

    def deliver(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Send one entry to the client."""

    def takes_runs(self, consumer: Consumer) -> bool:
        """Return whether deliveries to the consumer may be sent in runs, because nothing inspects each of them."""

    def deliver_run(self, consumer: Consumer, waiting: Sequence[WaitingMessage], copies: Sequence[int]) -> None:
        """Send messages that were never handed out to a consumer with automatic acknowledgement that takes runs."""

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        """Notify the client that the broker has cancelled the consumer."""

    def can_be_cancelled(self) -> bool:
        """Return whether a timeout may cancel one consumer, and notify its client, instead of closing the channel."""

    def suspended(self, consumer: Consumer) -> None:
        """Notify the client of a cancelled consumer, and keep it: it may go on after late acknowledgements."""

    def held_too_long(self, entries: Sequence[QueueEntry]) -> None:
        """Forget deliveries that the broker takes back; settling them later has no effect."""

    def end_for_timeout(self, limit_us: int) -> None:
        """Close the channel for a delivery that it held longer than the limit."""


class ReplyTarget(Protocol):
    """A channel that waits for direct replies."""

    def deliver_reply(self, message: Message) -> None:
        """Send one reply to the client."""


class Target(Protocol):
    """A queue of any kind, as far as an arriving message needs it."""

    name: str

    def refuses_publisher(self, publisher: object) -> bool:
        """Return whether it currently takes nothing from this publisher."""

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Take a message in, or refuse it (False)."""


class VirtualHostPort(Protocol):
    """A virtual host, as far as its queues need it."""

    name: str
    default_queue_type: str

    @property
    def node(self) -> Runtime:
        """The clock, the work and the ids of the node."""

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """The exchanges by name."""

    @property
    def queues(self) -> Mapping[str, StoredQueue]:
        """The queues by name."""

    def title_of(self, kind: str, name: str) -> str:
        """Return the description of a queue or exchange in texts."""

    def refuse_another_queue(self, name: str) -> None:
        """Refuse a queue beyond a limit."""

    def remove_queue(self, queue: StoredQueue, reason: str | None) -> int:
        """Remove a queue; return how many ready messages were lost."""

    def route_letter(self, exchange: Exchange, message: Message) -> Sequence[Target]:
        """Return the queues of a message that no channel publishes, each once."""

    def post(self, letter: Message, exchange: Exchange, src_copy: int, reason: str) -> None:
        """Route a dead letter once the current work is done."""

    def lost(self, message: Message, reason: str = ..., queue_name: str | None = None) -> None:
        """Record that a message entered no queue, or not the queue named."""
