"""Numbers of AMQP 0-9-1: frame kinds, sizes, limits and reply codes.

The sizes are those of RabbitMQ 4.3. `leveret.core.compat` holds what differs in other versions.
"""

from __future__ import annotations

from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
FRAME_END_OCTET: Final = b"\xce"

# Kind, channel and size come before the payload, the end octet after it.
FRAME_HEADER_SIZE: Final = 7
FRAME_OVERHEAD: Final = 8
FRAME_MAX_SIZE: Final = 131072
CHANNEL_MAX: Final = 2047
HEARTBEAT_S: Final = 60
SHORT_STRING_MAX_SIZE: Final = 255

CLASS_BASIC: Final = 60

NO_ROUTE: Final = 312
ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
NOT_ALLOWED: Final = 530

REPLY_NAMES: Final[dict[int, str]] = {
    200: "REPLY_SUCCESS",
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}
