"""The octets of a message on its way out: deliver, get-ok and return.

A delivery is a constant front per consumer, the delivery tag, the message's address, and its content. Bodies are cut
greedily into frames of at most `frame_max - 8` octets, as RabbitMQ cuts them; header frames are never split.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from leveret.model.message import Head, Message
from leveret.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_END_OCTET, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD
from leveret.wire.frames import HEADER, wrap
from leveret.wire.methods import BasicDeliver
from leveret.wire.values import encode_short_string

_ID: Final = Struct(">I")
_TAG: Final = Struct(">QB")
# Class basic, weight 0, body size.
_CONTENT_HEADER: Final = Struct(">HHQ")


class DeliveryEncoder:
    """The octets of deliveries to one consumer.

    A consumer is given the same kind of message again and again: what lies before and behind the delivery tag, up to
    the body, is kept from the last one and used while head and size are the same.
    """

    __slots__ = ("_back", "_body_limit", "_channel_number", "_frame_max", "_front", "_head", "_known", "_size")

    def __init__(self, consumer_tag: str, channel_number: int, frame_max: int) -> None:
        self._head = _ID.pack(BasicDeliver.ID) + encode_short_string(consumer_tag)
        self._channel_number = channel_number
        self._frame_max = frame_max
        self._body_limit = frame_max - FRAME_OVERHEAD
        # What the last delivery had in common with those before and behind it, and the size of its body.
        self._known: Head | None = None
        self._size = -1
        # The method frame before the delivery tag; and what follows the flag, up to the body.
        self._front = b""
        self._back = b""

    def encode(self, tag: int, redelivered: bool, message: Message, properties_octets: bytes | None = None) -> bytes:
        """Method, header and body frames of a delivery. Hot: once per delivered message.

        `properties_octets` stand in for the message's own where a queue adds headers to a delivery.
        """
        body = message.body
        size = len(body)
        if message.head is not self._known or size != self._size or properties_octets is not None:
            if not 0 < size <= self._body_limit:
                method = self._method(tag, redelivered, message)
                return method + content(message, self._channel_number, self._frame_max, properties_octets)
            self._learn(message, size, properties_octets)
        return b"".join((self._front, _TAG.pack(tag, redelivered), self._back, body, FRAME_END_OCTET))

    def _learn(self, message: Message, size: int, properties_octets: bytes | None) -> None:
        # Properties of one delivery alone say nothing about the next.
        self._known, self._size = (message.head if properties_octets is None else None), size
        properties = message.properties_octets if properties_octets is None else properties_octets
        number, address = self._channel_number, _address(message)
        self._front = HEADER.pack(FRAME_METHOD, number, len(self._head) + _TAG.size + len(address)) + self._head
        header = HEADER.pack(FRAME_HEADER, number, _CONTENT_HEADER.size + len(properties))
        header += _CONTENT_HEADER.pack(CLASS_BASIC, 0, size) + properties
        body_head = HEADER.pack(FRAME_BODY, number, size)
        self._back = address + FRAME_END_OCTET + header + FRAME_END_OCTET + body_head

    def _method(self, tag: int, redelivered: bool, message: Message) -> bytes:
        payload = self._head + _TAG.pack(tag, redelivered) + _address(message)
        return wrap(FRAME_METHOD, self._channel_number, payload)


def _address(message: Message) -> bytes:
    """Exchange and routing key, as every delivery of the message ends."""
    return encode_short_string(message.exchange) + encode_short_string(message.routing_key)


def content(message: Message, channel_number: int, frame_max: int, properties_octets: bytes | None = None) -> bytes:
    """Header and body frames. Hot: once per delivered message.

    `properties_octets` stand in for the message's own where a queue adds headers to a delivery.
    """
    body = message.body
    properties = message.properties_octets if properties_octets is None else properties_octets
    size = len(body)
    header = HEADER.pack(FRAME_HEADER, channel_number, 12 + len(properties)) + _CONTENT_HEADER.pack(
        CLASS_BASIC, 0, size
    )
    if size == 0:
        return header + properties + FRAME_END_OCTET
    limit = frame_max - FRAME_OVERHEAD
    if size <= limit:
        return b"".join(
            (
                header,
                properties,
                FRAME_END_OCTET,
                HEADER.pack(FRAME_BODY, channel_number, size),
                body,
                FRAME_END_OCTET,
            )
        )
    parts = [header, properties, FRAME_END_OCTET]
    parts += [wrap(FRAME_BODY, channel_number, body[at : at + limit]) for at in range(0, size, limit)]
    return b"".join(parts)
