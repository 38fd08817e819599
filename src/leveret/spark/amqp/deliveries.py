"""Deliveries as bytes: taken out of a connection's stream before pika reads it, and identified by their content.

pika makes several objects for every delivery, which costs more than everything else a job does with it. So a tap reads
the stream first: it keeps the three kinds of frames of a delivery as they came, and passes everything else on to pika.
The tasks decode a delivery when they read its batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final

from leveret.core.wire.constants import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEADER_SIZE,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
)
from leveret.core.wire.frames import wrap

# The payload of basic.deliver behind class and method, that of the content header, the body.
Delivery = tuple[bytes, bytes, bytes]

_DELIVER: Final = b"\x00\x3c\x00\x3c"
_CLASS_AND_METHOD: Final = len(_DELIVER)
_KINDS: Final = (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT)
_HEARTBEAT: Final = wrap(FRAME_HEARTBEAT, 0, b"")
_BODY_SIZE: Final = Struct(">Q")
_TAG: Final = Struct(">Q")
_FLAGS: Final = Struct(">H")
_SIZE: Final = Struct(">I")
# The type of a frame, and the size of its payload.
_FRAME: Final = Struct(">B2xI")
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
        # The bytes of a frame that has not arrived as a whole.
        self._rest = b""
        # The incomplete delivery: its method, its header, its body so far, and how many bytes of that are missing.
        self._open: tuple[bytes | None, bytes, list[bytes], int] = (None, b"", [], 0)
        self._passed_at = 0.0

    def feed(self, data: bytes) -> None:
        """Process bytes that have arrived. Hot: three frames for each message."""
        stream, at = self._rest + data, 0
        arrived, read_head = len(stream), _FRAME.unpack_from
        method, header, body, missing = self._open
        kept: list[Delivery] = []
        passed: list[bytes] = []
        while at + FRAME_OVERHEAD <= arrived:
            kind, size = read_head(stream, at)
            payload, end = at + FRAME_HEADER_SIZE, at + FRAME_OVERHEAD + size
            if end > arrived:
                break
            if kind == FRAME_METHOD and stream[payload : payload + _CLASS_AND_METHOD] == _DELIVER:
                method, body = stream[payload + _CLASS_AND_METHOD : end - 1], []
            elif method is None or kind not in (FRAME_HEADER, FRAME_BODY):
                passed.append(stream[at:end])
            else:
                if kind == FRAME_HEADER:
                    header = stream[payload : end - 1]
                    (missing,) = _BODY_SIZE.unpack_from(header, 4)
                else:
                    body.append(stream[payload : end - 1])
                    missing -= size
                if not missing:
                    kept.append((method, header, b"".join(body)))
                    method = None
            at = end
        if at < arrived and stream[at] not in _KINDS:
            # This is not AMQP 0-9-1, and may be shorter than a frame, as an alert of TLS is. pika reports it.
            passed.append(stream[at:])
            at = arrived
        self._rest, self._open = stream[at:], (method, header, body, missing)
        if kept:
            self._keep(kept)
        now = time.monotonic()
        if not passed and now - self._passed_at > _SIGN_OF_LIFE_S:
            passed.append(_HEARTBEAT)
        if passed:
            self._passed_at = now
            self._pass_on(b"".join(passed))


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
