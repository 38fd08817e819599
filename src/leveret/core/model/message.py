"""A message, and its place in one queue.

A `Message` is what was published; it never changes afterwards and may lie in many queues. A `QueueEntry` is one copy:
where it stands in its queue, when it expires, how often it was handed out. Dead-lettering makes a new message of the
same id, so that the id names the root through all its deaths.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table

PERSISTENT: Final = 2
_new: Final = object.__new__


class Death(NamedTuple):
    """One entry of x-death: deaths in the same queue for the same reason are counted in one."""

    queue: str
    reason: str
    death_count: int
    # Of the first death of this entry; a later one only counts (seen on 4.3).
    time_s: int
    exchange: str
    routing_keys: tuple[str, ...]
    original_expiration: str | None
    # 3.x only: the fields stand in order of their names, because the entry was not the first or was updated.
    is_sorted: bool = False
    # 3.x only: the entry as a client published it; what it did not have, it does not get.
    published: Table | None = None


# What messages have in common that take the same way with the same properties, as plain data: exchange, routing key,
# properties as they go out, routing keys, hidden keys, deaths, failed deliveries, size of the published properties.
Head = tuple[str, str, bytes, tuple[str, ...], tuple[str, ...], tuple[Death, ...], int, int | None]


class Message:
    """A published message: where to, its properties and its body.

    Its head may be shared by many, and encoders know a kind of message again by it.
    """

    __slots__ = ("_properties", "body", "head", "id", "waiting")

    def __init__(
        self,
        message_id: int,
        exchange: str,
        routing_key: str,
        properties: Properties,
        properties_octets: bytes,
        body: bytes,
        routing_keys: tuple[str, ...],
        hidden_keys: tuple[str, ...] = (),
        deaths: tuple[Death, ...] = (),
        failed_delivery_count: int = 0,
        published_properties_size: int | None = None,
    ) -> None:
        self.id = message_id
        self.head: Head = (
            exchange,
            routing_key,
            properties_octets,
            routing_keys,
            hidden_keys,
            deaths,
            failed_delivery_count,
            published_properties_size,
        )
        self.body = body
        # None until somebody looks, where the message was made of its head.
        self._properties: Properties | None = properties
        # What stands for it in queues (see `ready`), once it waits in one.
        self.waiting: tuple[int, bytes, int, Head, int | None] | None = None

    @staticmethod
    def of(message_id: int, head: Head, body: bytes) -> Message:
        """A message of its head and body. Hot: once per message that has waited."""
        message = _new(Message)
        message.id = message_id
        message.head = head
        message.body = body
        message._properties = message.waiting = None
        return message

    def packed(self) -> tuple[int, Head, bytes]:
        """The message as plain data, which the garbage collector need not look at; `of` takes it."""
        return self.id, self.head, self.body

    def repeated(self, message_id: int, body: bytes) -> Message:
        """One more message like this one, but for its body. Hot: once per repeated publish."""
        message = _new(Message)
        message.id = message_id
        message.head = self.head
        message.body = body
        message._properties = self._properties
        message.waiting = None
        return message

    @property
    def exchange(self) -> str:
        """The exchange it was published to."""
        return self.head[0]

    @property
    def routing_key(self) -> str:
        """The key it was published with."""
        return self.head[1]

    @property
    def properties(self) -> Properties:
        """Its properties, as consumers get them."""
        properties = self._properties
        if properties is None:
            properties = self._properties = Properties.decode(self.head[2])
        return properties

    @property
    def properties_octets(self) -> bytes:
        """Flags and values as they go out: headers sorted, BCC gone (see `publishing.checked`)."""
        return self.head[2]

    @property
    def routing_keys(self) -> tuple[str, ...]:
        """The publish key, then CC, then BCC: every one is tried by every exchange type."""
        return self.head[3]

    @property
    def hidden_keys(self) -> tuple[str, ...]:
        """The BCC keys: they route, and are shown to nobody."""
        return self.head[4]

    @property
    def deaths(self) -> tuple[Death, ...]:
        """Newest first. RabbitMQ 4 keeps this beside the headers: what a client publishes as x-death means nothing."""
        return self.head[5]

    @property
    def failed_delivery_count(self) -> int:
        """Failed deliveries in the queues it died in, handed on to the next one."""
        return self.head[6]

    @property
    def published_properties_size(self) -> int | None:
        """Of a dead letter; None where it is the size of `properties_octets`."""
        return self.head[7]

    @property
    def asks_for_more(self) -> bool:
        """Whether it wants more of a plain queue than to be appended: to expire, or to count as failed before."""
        return self.properties.expiration is not None or bool(self.head[6])

    def is_same(self, other: Message) -> bool:
        """Whether both are one publish, on the same way: not one of them a dead letter of the other."""
        return self.id == other.id and self.head is other.head

    @property
    def counted_properties_size(self) -> int:
        """What its properties count towards a limit in bytes: RabbitMQ 4 keeps deaths beside them (seen on 4.3)."""
        size = self.published_properties_size
        return len(self.properties_octets) if size is None else size

    def with_headers(self, headers: Table) -> Message:
        """The same message with other headers."""
        properties = self.properties.replace(headers=headers)
        return Message(
            self.id,
            self.exchange,
            self.routing_key,
            properties,
            properties.encode(),
            self.body,
            self.routing_keys,
            self.hidden_keys,
            self.deaths,
            self.failed_delivery_count,
        )

    @property
    def headers(self) -> Table | None:
        """The headers table, None when there is none."""
        return self.properties.headers

    @property
    def is_persistent(self) -> bool:
        """Whether a classic queue keeps it over a restart: delivery mode 2 and nothing else (seen on 4.3)."""
        return self.properties.delivery_mode == PERSISTENT


class QueueEntry:
    """One message's place in one queue."""

    __slots__ = (
        "acquired_count",
        "copy",
        "delivery_count",
        "enqueued_at",
        "expires_at",
        "message",
        "position",
        "priority",
        "redelivered",
    )

    def __init__(self, message: Message, position: int, copy: int, enqueued_at: int) -> None:
        self.message = message
        # Order of arrival: the number of the copy, or the offset in a stream. A message that comes back goes there.
        self.position = position
        # Names this one message in this one queue, in the whole broker.
        self.copy = copy
        self.enqueued_at = enqueued_at
        self.expires_at: int | None = None
        self.priority = 0
        self.redelivered = False
        # How often it was handed out before, and how often such a delivery failed (semantics: reject and a lost channel
        # fail, nack and recover do not).
        self.acquired_count = 0
        self.delivery_count = 0
