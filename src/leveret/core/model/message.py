"""A message, and its place in one queue.

A `Message` is what was published. It never changes afterwards and may be in many queues. A `QueueEntry` is one copy:
its place in the queue, when it expires, how often it was delivered. Dead-lettering makes a new message with the same
id, so the id identifies the original publish through all deaths.
"""

from __future__ import annotations

from typing import Final

from leveret.core.model.dead_letters.death import Deaths, LetterProperties
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table

PERSISTENT: Final = 2
_new: Final = object.__new__

# What messages with the same route and the same properties share, as plain data: exchange, routing key, encoded
# properties, routing keys, hidden keys, deaths, failed deliveries, size of the published properties.
Head = tuple[str, str, bytes | LetterProperties, tuple[str, ...], tuple[str, ...], Deaths, int, int | None]


class Message:
    """A published message: its route, its properties and its body.

    Many messages may share one head. Encoders recognise messages of the same kind by it.
    """

    __slots__ = ("_properties", "body", "head", "id", "waiting")

    def __init__(
        self,
        message_id: int,
        exchange: str,
        routing_key: str,
        properties: Properties | None,
        properties_octets: bytes | LetterProperties,
        body: bytes,
        routing_keys: tuple[str, ...],
        hidden_keys: tuple[str, ...] = (),
        deaths: Deaths = (),
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
        # None until the first read, if the message was made from its head or is a dead letter.
        self._properties = properties
        # The tuple that stands for the message in queues (see `ready`), once it waits in one.
        self.waiting: tuple[int, bytes, int, Head, int | None] | None = None

    @staticmethod
    def from_head(message_id: int, head: Head, body: bytes) -> Message:
        """Return a message made from its head and body. Hot: once per message that waited in a queue."""
        message = _new(Message)
        message.id = message_id
        message.head = head
        message.body = body
        message._properties = message.waiting = None
        return message

    def packed(self) -> tuple[int, Head, bytes]:
        """Return the message as plain data, which the garbage collector need not track; `from_head` takes it."""
        return self.id, self.head, self.body

    def repeated(self, message_id: int, body: bytes) -> Message:
        """Return a message like this one but with another id and body. Hot: once per repeated publish."""
        message = _new(Message)
        message.id = message_id
        message.head = self.head
        message.body = body
        message._properties = self._properties
        message.waiting = None
        return message

    @property
    def exchange(self) -> str:
        """The exchange to which it was published."""
        return self.head[0]

    @property
    def routing_key(self) -> str:
        """The key with which it was published."""
        return self.head[1]

    @property
    def properties(self) -> Properties:
        """Its properties, as consumers get them."""
        properties = self._properties
        if properties is None:
            source = self.head[2]
            properties = self._properties = (
                Properties.decode(source) if isinstance(source, bytes) else source.properties
            )
        return properties

    @property
    def envelope(self) -> Properties:
        """Its properties, without the deaths in the headers of a dead letter; take these if headers do not matter."""
        source = self.head[2]
        return self.properties if isinstance(source, bytes) else source.envelope

    @property
    def properties_octets(self) -> bytes:
        """The encoded properties: headers sorted, BCC removed (see `publishing.checked`)."""
        source = self.head[2]
        return source if isinstance(source, bytes) else source.octets

    @property
    def routing_keys(self) -> tuple[str, ...]:
        """The routing key, then CC, then BCC: every exchange type tries all of them."""
        return self.head[3]

    @property
    def hidden_keys(self) -> tuple[str, ...]:
        """The BCC keys: they route, and no consumer sees them."""
        return self.head[4]

    @property
    def deaths(self) -> Deaths:
        """The deaths, newest first. RabbitMQ 4 keeps them beside the headers and ignores an x-death of the client."""
        return self.head[5]

    @property
    def failed_delivery_count(self) -> int:
        """The failed deliveries in the queues where it died, passed on to the next queue."""
        return self.head[6]

    @property
    def asks_for_more(self) -> bool:
        """Whether a plain queue cannot just append it: it has an expiration or failed deliveries."""
        properties = self._properties
        if properties is None:
            properties = self.envelope
        return properties.expiration is not None or bool(self.head[6])

    def is_same(self, other: Message) -> bool:
        """Return whether both come from one publish and neither is a dead letter of the other."""
        return self.id == other.id and self.head is other.head

    @property
    def counted_properties_size(self) -> int:
        """What its properties count towards a limit in bytes: RabbitMQ 4 keeps deaths beside them (seen on 4.3)."""
        size = self.head[7]
        return len(self.properties_octets) if size is None else size

    def with_properties(self, properties: Properties) -> Message:
        """Return the same message with other properties."""
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
        """The headers table, None if it has none."""
        return self.properties.headers

    @property
    def routing_headers(self) -> Table | None:
        """The headers that RabbitMQ 4 routes by: without an x-death that the broker added."""
        headers, deaths = self.headers, self.deaths
        if headers is None or not deaths or deaths[0].has_published_x_death:
            return headers
        return headers.without("x-death")

    @property
    def is_persistent(self) -> bool:
        """Whether it survives a restart in a classic queue: delivery mode 2 and nothing else (seen on 4.3)."""
        return self.envelope.delivery_mode == PERSISTENT


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
        # Order of arrival: the number of the copy, or the offset in a stream. A requeued message returns there.
        self.position = position
        # Identifies this message in this queue, uniquely in the whole broker.
        self.copy = copy
        self.enqueued_at = enqueued_at
        self.expires_at: int | None = None
        self.priority = 0
        self.redelivered = False
        # How often it was delivered and returned, and how often that was a failure. basic.reject and a lost channel are
        # failures; basic.nack and basic.recover are not.
        self.acquired_count = 0
        self.delivery_count = 0
