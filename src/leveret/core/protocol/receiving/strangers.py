"""Strangers: peers whose first bytes belong to another protocol, or to the broker's other port.

They get RabbitMQ's answer, which rarely says what is wrong, and no connection opens. So the node remembers them for the
reports of a test.
"""

from __future__ import annotations

from typing import Final

TLS: Final = "TLS"
HTTP: Final = "HTTP"
AMQP_1_0: Final = "AMQP 1.0"
# AMQP without TLS, on the port for TLS.
PLAIN_AMQP: Final = "plain AMQP"

_FIRST_BYTES: Final = (
    (b"\x16\x03", TLS),
    *((verb, HTTP) for verb in (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH ")),
    *((b"AMQP" + identifier + b"\x01\x00\x00", AMQP_1_0) for identifier in (b"\x00", b"\x02", b"\x03")),
)


def stranger_of(first: bytes, *, is_on_tls_port: bool) -> str | None:
    """Return what a peer with these first bytes speaks, or None if they are unknown."""
    if is_on_tls_port and first.startswith(b"AMQP"):
        return PLAIN_AMQP
    return next((word for prefix, word in _FIRST_BYTES if first.startswith(prefix)), None)
