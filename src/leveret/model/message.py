"""A message, and its place in one queue.

A `Message` is what was published; it never changes afterwards and may lie in many queues. A `QueueEntry` is one copy:
where it stands in its queue, when it expires, how often it was handed out. Dead-lettering makes a new message of the
same id, so that the id names the root through all its deaths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leveret.wire.properties import Properties
from leveret.wire.values import Table

PERSISTENT: Final = 2


@dataclass(frozen=True, slots=True)
class Death:
    """One entry of x-death: deaths in the same queue for the same reason are counted in one."""

    queue: str
    reason: str
    count: int
    # Of the first death of this entry; a later one only counts (seen on 4.3).
    time_s: int
    exchange: str
    routing_keys: tuple[str, ...]
    original_expiration: str | None
    # 3.x only: the fields stand in order of their names, because the entry was not the first or was updated.
    is_sorted: bool = False
    # 3.x only: the entry as a client published it; what it did not have, it does not get.
    published: Table | None = None


class Message:
    """A published message: where to, its properties and its body."""

    __slots__ = (
        "body",
        "deaths",
        "exchange",
        "failed_delivery_count",
        "hidden_keys",
        "id",
        "properties",
        "properties_octets",
        "published_properties_size",
        "routing_key",
        "routing_keys",
    )

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
        self.exchange = exchange
        self.routing_key = routing_key
        self.properties = properties
        # Flags and values as they go out: headers sorted, BCC gone (see properties_to_deliver).
        self.properties_octets = properties_octets
        self.body = body
        # The publish key, then CC, then BCC: every one is tried by every exchange type.
        self.routing_keys = routing_keys
        # The BCC keys: they route, and are shown to nobody.
        self.hidden_keys = hidden_keys
        # Newest first. RabbitMQ 4 keeps this beside the headers: what a client publishes as x-death means nothing.
        self.deaths = deaths
        # Failed deliveries in the queues it died in, handed on to the next one.
        self.failed_delivery_count = failed_delivery_count
        # Of a dead letter; None where it is the size of `properties_octets`.
        self.published_properties_size = published_properties_size

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
        "is_returned",
        "message",
        "position",
        "priority",
        "redelivered",
        "size_bytes",
    )

    def __init__(self, message: Message, position: int, copy: int, enqueued_at: int, size_bytes: int) -> None:
        self.message = message
        # Order of arrival in the queue; a requeued classic message goes back to it.
        self.position = position
        # Names this one message in this one queue, in the whole broker.
        self.copy = copy
        self.enqueued_at = enqueued_at
        # What counts towards a limit in bytes.
        self.size_bytes = size_bytes
        self.expires_at: int | None = None
        self.priority = 0
        self.redelivered = False
        # Whether it stands among the returned ones of a quorum queue.
        self.is_returned = False
        # How often it was handed out before, and how often such a delivery failed (semantics: reject and a lost channel
        # fail, nack and recover do not).
        self.acquired_count = 0
        self.delivery_count = 0
