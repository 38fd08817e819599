"""The form in which a stream stores a message. RabbitMQ stores it as AMQP 1.0, and some of it is lost.

The cluster id is lost, and so are headers that hold arrays or tables for which AMQP 1.0 has no place. From 4.0 on,
headers are lost whose names the conversion needs itself (mc_amqpl, is_internal_header/1), every message gets a delivery
mode, 1 unless it was 2, and a byte array becomes a string. Before 4.0, `x-` headers lose their arrays too.
"""

from __future__ import annotations

from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.errors import InternalRefusal
from leveret.core.model.message import PERSISTENT, Message
from leveret.core.wire.values import Field, Table

OFFSET_HEADER: Final = "x-stream-offset"
_TRANSIENT: Final = 1
_INTERNAL: Final = frozenset({"x-death", "x-exchange", "x-opt-deaths", "x-routing-key"})


def refuse_unstorable(message: Message) -> None:
    """Refuse a message with a decimal among its headers: RabbitMQ crashes on it."""
    if message.headers is not None and any(field.tag == "D" for _, field in message.headers):
        raise InternalRefusal()


def stored(message: Message, offset: int, compat: Compat) -> Message:
    """Return a message as the stream stores it at this offset, and as consumers get it. Hot: once per message."""
    properties = message.properties
    mode = properties.delivery_mode
    if compat.stream_keeps_message_containers:
        mode = PERSISTENT if mode == PERSISTENT else _TRANSIENT
    shown = Field("l", offset)
    if message.headers:
        headers = _stored_headers(message, message.headers, compat).with_entry(OFFSET_HEADER, shown)
        headers = headers.sorted_unique() if compat.sorts_header_keys else headers.sorted()
    else:
        headers = Table(((OFFSET_HEADER, shown),))
    expiration = properties.expiration
    if message.deaths and compat.stream_keeps_message_containers:
        # A stream stores the message as published, and a dead letter still has its original expiration.
        expirations = (death.original_expiration for death in message.deaths)
        expiration = next((it for it in expirations if it is not None), None)
    properties = properties.replace(headers=headers, delivery_mode=mode, cluster_id=None, expiration=expiration)
    return message.with_properties(properties)


def _stored_headers(message: Message, headers: Table, compat: Compat) -> Table:
    if not compat.stream_keeps_message_containers:
        return Table(tuple((name, field) for name, field in headers if field.tag not in "AFD"))
    # The deaths of the message itself are kept beside its headers, and shown as x-death.
    lost = _INTERNAL - {"x-death"} if message.deaths else _INTERNAL
    return Table(
        tuple((name, _as_string(field)) for name, field in headers if _keeps(name, field) and name not in lost)
    )


def _as_string(field: Field) -> Field:
    """Turn a byte array into a string, also inside arrays; tables keep their values (seen on 4.0 and 4.3)."""
    if field.tag == "x":
        return Field("S", field.value)
    if field.tag == "A" and isinstance(field.value, tuple):
        return Field("A", tuple(_as_string(item) for item in field.value if isinstance(item, Field)))
    return field


def _keeps(name: str, field: Field) -> bool:
    return field.tag not in "AFD" or (field.tag != "D" and (name.startswith("x-") or name == "CC"))
