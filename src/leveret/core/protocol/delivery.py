"""A delivery: what a channel remembers of it, and the bytes of a message on its way out.

On the wire a delivery is a constant front for each consumer, the delivery tag, the message's address, and the content.
basic.get-ok and basic.return carry the same content. Like RabbitMQ, leveret cuts bodies greedily into frames of at most
`frame_max - 8` bytes, and never splits header frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from leveret.core.model.message import Head, Message, QueueEntry
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.ready import WaitingMessage
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.wire.constants import (
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_END_OCTET,
    FRAME_HEADER,
    FRAME_METHOD,
    FRAME_OVERHEAD,
)
from leveret.core.wire.frames import HEADER, wrap
from leveret.core.wire.methods import BasicDeliver
from leveret.core.wire.values import encode_short_string

_ID: Final = Struct(">I")
_TAG: Final = Struct(">QB")
_pack_tag: Final = Struct(">Q").pack
# Class basic, weight 0, body size.
_CONTENT_HEADER: Final = Struct(">HHQ")
_CLASS_AND_WEIGHT: Final = Struct(">HH")
_KIND_AND_NUMBER: Final = Struct(">BH")


class Delivery:
    """An entry handed out under a delivery tag of one channel."""

    __slots__ = ("consumer", "delivered_at", "entry", "is_postponed", "is_stale", "queue", "tag")

    def __init__(
        self, tag: int, entry: QueueEntry, queue: StoredQueue, consumer: Consumer | None, delivered_at: int
    ) -> None:
        self.tag = tag
        self.entry = entry
        self.queue = queue
        # None if it was fetched by basic.get.
        self.consumer = consumer
        self.delivered_at = delivered_at
        # Whether its queue has taken it back. Settling it then has no effect.
        self.is_stale = False
        # Whether its client waits for a later time of the broker's clock before it settles it (time/naps.py).
        self.is_postponed = False


class DeliveryEncoder:
    """An encoder of the deliveries to one consumer.

    A consumer gets the same kind of message again and again. The encoder keeps the last delivery except for its
    delivery tag and body, and reuses it while messages have the same head and size. Other deliveries are encoded from
    scratch. A property test checks that both give the same bytes.
    """

    __slots__ = (
        "_body_limit",
        "_channel_number",
        "_frame_max",
        "_front",
        "_head",
        "_is_redelivered",
        "_last_head",
        "_middle",
        "_pack_rest",
        "_rest",
        "_size",
        "_tail",
    )

    def __init__(self, consumer_tag: str, channel_number: int, frame_max: int) -> None:
        self._head = _ID.pack(BasicDeliver.ID) + encode_short_string(consumer_tag)
        self._channel_number = channel_number
        self._frame_max = frame_max
        self._body_limit = frame_max - FRAME_OVERHEAD
        # The head of the last message. Then three parts of its delivery: everything before the delivery tag, everything
        # between redelivered flag and body size, and everything from there to the size of the body's frame.
        self._last_head: Head | None = None
        self._front = self._middle = self._tail = b""
        self._pack_rest = Struct("").pack
        # The flag and body size of the last delivery, and everything between delivery tag and body.
        self._is_redelivered = False
        self._size = 0
        self._rest = b""

    def encode(
        self, tag: int, is_redelivered: bool, message: Message, properties_octets: bytes | None = None
    ) -> tuple[bytes, ...]:
        """Return method, header and body frames of a delivery, in pieces. Hot: once per delivered message.

        `properties_octets` replace the message's own if a queue adds headers to a delivery.
        """
        body = message.body
        size = len(body)
        if (
            message.head is not self._last_head
            or size != self._size
            or is_redelivered is not self._is_redelivered
            or properties_octets is not None
        ):
            if not 0 < size <= self._body_limit:
                method = self._method(tag, is_redelivered, message)
                return (with_content(method, message, self._channel_number, self._frame_max, properties_octets),)
            self._learn(is_redelivered, message, properties_octets)
        return self._front, _pack_tag(tag), self._rest, body, FRAME_END_OCTET

    def encode_run(self, tag: int, waiting: Iterable[WaitingMessage]) -> list[bytes]:
        """Return deliveries of messages that were never handed out, numbered from `tag`. Hot: a loop over messages."""
        pieces: list[bytes] = []
        for message_id, body, _, head, _ in waiting:
            if head is not self._last_head or len(body) != self._size or self._is_redelivered:
                pieces += self.encode(tag, False, Message.from_head(message_id, head, body))
            else:
                pieces += (self._front, _pack_tag(tag), self._rest, body, FRAME_END_OCTET)
            tag += 1
        return pieces

    def _learn(self, is_redelivered: bool, message: Message, properties_octets: bytes | None) -> None:
        if message.head is not self._last_head or properties_octets is not None:
            self._learn_head(message, properties_octets)
        self._is_redelivered, self._size = is_redelivered, len(message.body)
        self._rest = self._pack_rest(is_redelivered, self._middle, self._size, self._tail, self._size)

    def _learn_head(self, message: Message, properties_octets: bytes | None) -> None:
        # The properties of a single delivery say nothing about the next one.
        self._last_head = message.head if properties_octets is None else None
        properties = message.properties_octets if properties_octets is None else properties_octets
        number, address = self._channel_number, _address(message)
        self._front = HEADER.pack(FRAME_METHOD, number, len(self._head) + _TAG.size + len(address)) + self._head
        header = HEADER.pack(FRAME_HEADER, number, _CONTENT_HEADER.size + len(properties))
        self._middle = address + FRAME_END_OCTET + header + _CLASS_AND_WEIGHT.pack(CLASS_BASIC, 0)
        self._tail = properties + FRAME_END_OCTET + _KIND_AND_NUMBER.pack(FRAME_BODY, number)
        self._pack_rest = Struct(f">B{len(self._middle)}sQ{len(self._tail)}sI").pack

    def _method(self, tag: int, is_redelivered: bool, message: Message) -> bytes:
        payload = self._head + _TAG.pack(tag, is_redelivered) + _address(message)
        return wrap(FRAME_METHOD, self._channel_number, payload)


def _address(message: Message) -> bytes:
    """Return exchange and routing key, with which every delivery of the message ends."""
    return encode_short_string(message.exchange) + encode_short_string(message.routing_key)


def with_content(
    method: bytes, message: Message, channel_number: int, frame_max: int, properties_octets: bytes | None = None
) -> bytes:
    """Return a method's frame with header and body frames behind it. Hot: once per delivered message.

    `properties_octets` replace the message's own if a queue adds headers to a delivery.
    """
    body = message.body
    properties = message.properties_octets if properties_octets is None else properties_octets
    size = len(body)
    header = HEADER.pack(FRAME_HEADER, channel_number, 12 + len(properties)) + _CONTENT_HEADER.pack(
        CLASS_BASIC, 0, size
    )
    if size == 0:
        return method + header + properties + FRAME_END_OCTET
    limit = frame_max - FRAME_OVERHEAD
    parts: list[bytes | memoryview] = [method, header, properties, FRAME_END_OCTET]
    if size <= limit:
        parts += (HEADER.pack(FRAME_BODY, channel_number, size), body, FRAME_END_OCTET)
        return b"".join(parts)
    # A large body is copied only once, by the join.
    view = memoryview(body)
    for at in range(0, size, limit):
        part = view[at : at + limit]
        parts += (HEADER.pack(FRAME_BODY, channel_number, len(part)), part, FRAME_END_OCTET)
    return b"".join(parts)
