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
from leveret.core.wire.frames import HEADER, wrap

# The payload of basic.deliver behind class and method, that of the content header, the body.
Delivery = tuple[bytes, bytes, bytes]

_DELIVER: Final = b"\x00\x3c\x00\x3c"
_KINDS: Final = (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT)
_HEARTBEAT: Final = wrap(FRAME_HEARTBEAT, 0, b"")
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
        self._rest = b""
        # The incomplete delivery: its method, its header, the parts of its body, and how many bytes are missing.
        self._method: bytes | None = None
        self._header = b""
        self._body: list[bytes] = []
        self._missing = 0
        self._passed_at = 0.0

    def feed(self, data: bytes) -> None:
        """Process bytes that have arrived."""
        stream = self._rest + data if self._rest else data
        end_of_all = len(stream)
        at = 0
        kept: list[Delivery] = []
        passed: list[bytes] = []
        unpack = HEADER.unpack_from
        while True:
            if self._method is None:
                at = _take_whole(stream, at, kept)
            if end_of_all - at < FRAME_OVERHEAD:
                break
            kind, _, size = unpack(stream, at)
            if kind not in _KINDS:
                # This is not AMQP 0-9-1. pika reports it.
                passed.append(stream[at:])
                at = end_of_all
                break
            end = at + FRAME_OVERHEAD + size
            if end > end_of_all:
                break
            if kind == FRAME_METHOD and stream.startswith(_DELIVER, at + 7):
                self._method = stream[at + 11 : end - 1]
            elif self._method is None or kind in (FRAME_HEARTBEAT, FRAME_METHOD):
                passed.append(stream[at:end])
            elif kind == FRAME_HEADER:
                self._header = stream[at + 7 : end - 1]
                (self._missing,) = _BODY_SIZE.unpack_from(self._header, 4)
                if not self._missing:
                    kept.append((self._method, self._header, b""))
                    self._method = None
            elif size == self._missing and not self._body:
                kept.append((self._method, self._header, stream[at + 7 : end - 1]))
                self._method = None
            else:
                self._body.append(stream[at + 7 : end - 1])
                self._missing -= size
                if not self._missing:
                    kept.append((self._method, self._header, b"".join(self._body)))
                    self._method, self._body = None, []
            at = end
        self._rest = stream[at:]
        if kept:
            self._keep(kept)
        now = time.monotonic()
        if not passed and now - self._passed_at > _SIGN_OF_LIFE_S:
            passed.append(_HEARTBEAT)
        if passed:
            self._passed_at = now
            self._pass_on(b"".join(passed))


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
