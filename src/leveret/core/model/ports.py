"""The ports of the model: what its parts need of others that they must not know.

`ConnectionPort`, `Subscriber` and `ReplyTarget` are what the model tells a connection and a channel; the protocol layer
implements them. `VirtualHostPort` is what a queue needs of its virtual host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from leveret.core.model.errors import AmqpError

if TYPE_CHECKING:
    from leveret.core.model.consumer import Consumer
    from leveret.core.model.exchanges.exchange import Exchange
    from leveret.core.model.message import Message, QueueEntry
    from leveret.core.model.ready import WaitingMessage
    from leveret.core.model.runtime import Runtime
    from leveret.core.model.stored_queue import StoredQueue
    from leveret.core.wire.values import Table


class ConnectionPort(Protocol):
    """A connection, as far as the model cares: who owns what, and whom to tell."""

    number: int
    user: str
    # The two ends, host and port.
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
        """What RabbitMQ calls it: both ends."""

    @property
    def client_name(self) -> str:
        """What the client calls it."""

    @property
    def channel_count(self) -> int:
        """How many channels it has open."""

    @property
    def vhost_name(self) -> str:
        """The name of its virtual host."""

    def refuse(self, channel_number: int, error: AmqpError) -> None:
        """Tell the peer what it may not do; a hard error, or channel 0, ends the connection."""

    def block(self, reason: str) -> None:
        """An alarm is on: stop the connection at its next publish."""

    def unblock(self) -> None:
        """The last alarm has gone."""

    def shut_down(self, error: AmqpError) -> None:
        """Close the connection and do not wait for the peer's answer."""


class Subscriber(Protocol):
    """A channel, as a consumer sees it."""

    # Whether `has_room` has to be asked: there is a limit beside those of single consumers.
    is_limited: bool

    def has_room(self) -> bool:
        """Whether the channel as a whole may take another delivery (a shared prefetch limit)."""

    def deliver(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Send one entry to the client."""

    def takes_runs(self, consumer: Consumer) -> bool:
        """Whether nobody looks at each single delivery to the consumer."""

    def deliver_run(self, consumer: Consumer, waiting: Sequence[WaitingMessage], copies: Sequence[int]) -> None:
        """Send what was never handed out to a consumer that acknowledges nothing, where it takes runs."""

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        """The broker has cancelled the consumer."""

    def can_be_cancelled(self) -> bool:
        """Whether one consumer can be taken away for holding deliveries too long, and its client told."""

    def held_too_long(self, entries: Sequence[QueueEntry]) -> None:
        """The broker takes entries back; settling them later means nothing."""

    def end_for_timeout(self, limit_us: int) -> None:
        """The channel has to end for a delivery held longer than the limit."""


class ReplyTarget(Protocol):
    """A channel that waits for direct replies."""

    def deliver_reply(self, message: Message) -> None:
        """Send one reply to the client."""


class Target(Protocol):
    """A queue of any kind, as far as a message that arrives cares."""

    name: str

    def refuses_publisher(self, publisher: object) -> bool:
        """Whether it takes nothing from this publisher, just now."""

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

    def refuse_another_queue(self, name: str) -> None:
        """Refuse a queue beyond a limit."""

    def remove_queue(self, queue: StoredQueue, reason: str | None) -> int:
        """Take a queue out; the number of ready messages lost."""

    def route(self, exchange: Exchange, message: Message) -> Sequence[Target]:
        """Find the queues of a message, each once."""

    def post(self, letter: Message, exchange: Exchange, src_copy: int, reason: str) -> None:
        """Let a dead letter be routed once the work at hand is done."""

    def lost(self, message: Message, reason: str = ..., queue_name: str | None = None) -> None:
        """Record that a message entered no queue, or not this one."""


Confirm = Callable[[bool], None]
