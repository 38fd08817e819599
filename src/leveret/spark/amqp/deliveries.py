"""Deliveries as bytes: taken out of a connection's stream before pika reads it, and identified by their content.

pika makes several objects for every delivery, which costs more than everything else a job does with it. So a tap reads
the stream first: it keeps the three kinds of frames of a delivery as they came, and passes everything else on to pika.
The tasks decode a delivery when they read its batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from struct import Struct
from struct import error as StructError
from typing import Final

from leveret.core.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, FRAME_OVERHEAD
from leveret.core.wire.frames import FrameReader, wrap

# The payload of basic.deliver behind class and method, that of the content header, the body.
Delivery = tuple[bytes, bytes, bytes]

_DELIVER: Final = b"\x00\x3c\x00\x3c"
_KINDS: Final = (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT)
_HEARTBEAT: Final = wrap(FRAME_HEARTBEAT, 0, b"")
# No frame is too large: pika has negotiated the size.
_ANY_SIZE: Final = 1 << 32
_BODY_SIZE: Final = Struct(">Q")
_TAG: Final = Struct(">Q")
_FLAGS: Final = Struct(">H")
_SIZE: Final = Struct(">I")
# The first fields of a delivery's three frames: type, size, class and method; type, size, body size; type, size.
_METHOD_START: Final = Struct(">B2xI4s")
_HEADER_START: Final = Struct(">B2xI4xQ")
_BODY_START: Final = Struct(">B2xI")
# In a content header, class, weight and body size come before the flags.
FLAGS_AT: Final = 12
_HAS_HEADERS: Final = 0x2000
# If pika sees no bytes for the heartbeat's interval, it ends the connection. The tap gives it a heartbeat this often.
_SIGN_OF_LIFE_S: Final = 1.0


class DeliveryTap:
    """A tap on the stream of one connection with one channel: deliveries go to `keep`, the rest to `pass_on`."""

    def __init__(self, pass_on: Callable[[bytes], None], keep: Callable[[list[Delivery]], None]) -> None:
        self._pass_on = pass_on
        self._keep = keep
        self._reader = FrameReader(_ANY_SIZE)
        # The incomplete delivery: its method, its header, the parts of its body, and how many bytes are missing.
        self._method: bytes | None = None
        self._header = b""
        self._body: list[bytes] = []
        self._missing = 0
        self._passed_at = 0.0

    def feed(self, data: bytes) -> None:
        """Process bytes that have arrived."""
        reader = self._reader
        reader.feed(data)
        kept: list[Delivery] = []
        passed: list[bytes] = []
        while True:
            if self._method is None:
                reader.at = _take_whole(reader.octets, reader.at, kept)
            start = reader.at
            if start < len(reader.octets) and reader.octets[start] not in _KINDS:
                # This is not AMQP 0-9-1. pika reports it.
                reader.at = len(reader.octets)
                passed.append(reader.octets[start:])
            frame = reader.next()
            if frame is None:
                break
            kind, _, payload = frame
            if kind == FRAME_METHOD and payload.startswith(_DELIVER):
                self._method = payload[len(_DELIVER) :]
            elif self._method is None or kind in (FRAME_HEARTBEAT, FRAME_METHOD):
                passed.append(reader.octets[start : reader.at])
            else:
                self._add(self._method, kind, payload, kept)
        if kept:
            self._keep(kept)
        now = time.monotonic()
        if not passed and now - self._passed_at > _SIGN_OF_LIFE_S:
            passed.append(_HEARTBEAT)
        if passed:
            self._passed_at = now
            self._pass_on(b"".join(passed))

    def _add(self, method: bytes, kind: int, payload: bytes, kept: list[Delivery]) -> None:
        """Add a header or a part of the body to the incomplete delivery, and keep the delivery once it is complete."""
        if kind == FRAME_HEADER:
            self._header = payload
            (self._missing,) = _BODY_SIZE.unpack_from(payload, 4)
        else:
            self._body.append(payload)
            self._missing -= len(payload)
        if not self._missing:
            kept.append((method, self._header, b"".join(self._body)))
            self._method, self._body = None, []


def _take_whole(stream: bytes, at: int, kept: list[Delivery]) -> int:
    """Keep the consecutive deliveries from here on that are complete and have their body in one frame.

    Return the position of the first byte after them. Hot: once for each message.
    """
    method_start, header_start, body_start = (
        _METHOD_START.unpack_from,
        _HEADER_START.unpack_from,
        _BODY_START.unpack_from,
    )
    end_of_all = len(stream)
    # `unpack_from` raises StructError if the stream ends inside a frame: the delivery is incomplete.
    with suppress(StructError):
        while True:
            kind, size, method = method_start(stream, at)
            if kind != FRAME_METHOD or method != _DELIVER:
                break
            header_at = at + FRAME_OVERHEAD + size
            kind, size, body_size = header_start(stream, header_at)
            if kind != FRAME_HEADER:
                break
            body_at = header_at + FRAME_OVERHEAD + size
            kind, size = body_start(stream, body_at)
            end = body_at + FRAME_OVERHEAD + size
            if kind != FRAME_BODY or size != body_size or end > end_of_all:
                break
            kept.append(
                (stream[at + 11 : header_at - 1], stream[header_at + 7 : body_at - 1], stream[body_at + 7 : end - 1])
            )
            at = end
    return at


def delivery_tag(delivery: Delivery) -> int:
    """Return the delivery tag."""
    method = delivery[0]
    tag: int = _TAG.unpack_from(method, method[0] + 1)[0]
    return tag


def is_redelivered(delivery: Delivery) -> bool:
    """Return the redelivered flag: whether the broker may have delivered the message before."""
    method = delivery[0]
    return bool(method[method[0] + 9])


def identities(deliveries: Sequence[Delivery]) -> list[bytes]:
    """Return a digest of eight bytes for each message, which is the same for every delivery of it.

    It covers exchange, routing key, properties and body. It leaves out headers: a quorum queue counts deliveries there.
    """
    found = []
    for method, header, body in deliveries:
        identity = blake2b(method[method[0] + 10 :], digest_size=8)
        identity.update(_without_headers(header) if header[FLAGS_AT] & 0x20 else header)
        identity.update(body)
        found.append(identity.digest())
    return found


def _without_headers(header: bytes) -> bytes:
    (flags,) = _FLAGS.unpack_from(header, FLAGS_AT)
    at = FLAGS_AT + 2
    for flag in (0x8000, 0x4000):
        if flags & flag:
            at += 1 + header[at]
    after = at + 4 + _SIZE.unpack_from(header, at)[0]
    return header[:FLAGS_AT] + _FLAGS.pack(flags & ~_HAS_HEADERS) + header[FLAGS_AT + 2 : at] + header[after:]
