"""The methods of AMQP 0-9-1 and RabbitMQ's additions to it, one row each, in the order of their ids.

Written by hand from the published specification. A row is: class id, method id, name, sender (C a client, S the server,
CS both), and the fields in wire order as name:type. Types are ss (short string), ls (long string), tbl (field table),
u8, u16, u32, u64 and bit. Consecutive bits share a byte, the first bit is the lowest. A type with ! is reserved: a
client's value is checked and dropped, and the server writes zeros unless it is given a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of a method."""

    name: str
    type: str
    is_reserved: bool

    @property
    def attribute(self) -> str:
        """The field's name in Python, which must not be a keyword."""
        return "global_" if self.name == "global" else self.name


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One method."""

    class_id: int
    method_id: int
    name: str
    senders: str
    fields: tuple[FieldRow, ...]

    @property
    def class_name(self) -> str:
        """The name of the method's Python class: queue.declare-ok is QueueDeclareOk."""
        return "".join(word.capitalize() for word in self.name.replace("-", ".").split("."))

    @property
    def is_from_client(self) -> bool:
        """Whether a client may send the method."""
        return "C" in self.senders

    @property
    def is_from_server(self) -> bool:
        """Whether the server sends the method."""
        return "S" in self.senders


def _method(class_id: int, method_id: int, name: str, senders: str, fields: str = "") -> MethodRow:
    pairs = [field.split(":") for field in fields.split()]
    rows = tuple(FieldRow(field, kind.rstrip("!"), kind.endswith("!")) for field, kind in pairs)
    return MethodRow(class_id, method_id, name, senders, rows)


_CLOSE = "reply_code:u16 reply_text:ss class_id:u16 method_id:u16"
_TUNE = "channel_max:u16 frame_max:u32 heartbeat:u16"
_EXCHANGE_BIND = "ticket:u16! destination:ss source:ss routing_key:ss nowait:bit arguments:tbl"

METHODS: Final[tuple[MethodRow, ...]] = (
    _method(
        10,
        10,
        "connection.start",
        "S",
        "version_major:u8 version_minor:u8 server_properties:tbl mechanisms:ls locales:ls",
    ),
    _method(10, 11, "connection.start-ok", "C", "client_properties:tbl mechanism:ss response:ls locale:ss"),
    _method(10, 20, "connection.secure", "S", "challenge:ls"),
    _method(10, 21, "connection.secure-ok", "C", "response:ls"),
    _method(10, 30, "connection.tune", "S", _TUNE),
    _method(10, 31, "connection.tune-ok", "C", _TUNE),
    _method(10, 40, "connection.open", "C", "virtual_host:ss capabilities:ss! insist:bit!"),
    _method(10, 41, "connection.open-ok", "S", "known_hosts:ss!"),
    _method(10, 50, "connection.close", "CS", _CLOSE),
    _method(10, 51, "connection.close-ok", "CS"),
    _method(10, 60, "connection.blocked", "S", "reason:ss"),
    _method(10, 61, "connection.unblocked", "S"),
    _method(10, 70, "connection.update-secret", "C", "new_secret:ls reason:ss"),
    _method(10, 71, "connection.update-secret-ok", "S"),
    _method(20, 10, "channel.open", "C", "out_of_band:ss!"),
    _method(20, 11, "channel.open-ok", "S", "channel_id:ls!"),
    _method(20, 20, "channel.flow", "CS", "active:bit"),
    _method(20, 21, "channel.flow-ok", "CS", "active:bit"),
    _method(20, 40, "channel.close", "CS", _CLOSE),
    _method(20, 41, "channel.close-ok", "CS"),
    _method(30, 10, "access.request", "C", "realm:ss exclusive:bit passive:bit active:bit write:bit read:bit"),
    _method(30, 11, "access.request-ok", "S", "ticket:u16"),
    _method(
        40,
        10,
        "exchange.declare",
        "C",
        "ticket:u16! exchange:ss type:ss passive:bit durable:bit auto_delete:bit internal:bit nowait:bit arguments:tbl",
    ),
    _method(40, 11, "exchange.declare-ok", "S"),
    _method(40, 20, "exchange.delete", "C", "ticket:u16! exchange:ss if_unused:bit nowait:bit"),
    _method(40, 21, "exchange.delete-ok", "S"),
    _method(40, 30, "exchange.bind", "C", _EXCHANGE_BIND),
    _method(40, 31, "exchange.bind-ok", "S"),
    _method(40, 40, "exchange.unbind", "C", _EXCHANGE_BIND),
    # 51 and not 41: RabbitMQ assigned the number so and keeps it.
    _method(40, 51, "exchange.unbind-ok", "S"),
    _method(
        50,
        10,
        "queue.declare",
        "C",
        "ticket:u16! queue:ss passive:bit durable:bit exclusive:bit auto_delete:bit nowait:bit arguments:tbl",
    ),
    _method(50, 11, "queue.declare-ok", "S", "queue:ss message_count:u32 consumer_count:u32"),
    _method(50, 20, "queue.bind", "C", "ticket:u16! queue:ss exchange:ss routing_key:ss nowait:bit arguments:tbl"),
    _method(50, 21, "queue.bind-ok", "S"),
    _method(50, 30, "queue.purge", "C", "ticket:u16! queue:ss nowait:bit"),
    _method(50, 31, "queue.purge-ok", "S", "message_count:u32"),
    _method(50, 40, "queue.delete", "C", "ticket:u16! queue:ss if_unused:bit if_empty:bit nowait:bit"),
    _method(50, 41, "queue.delete-ok", "S", "message_count:u32"),
    # The only method with arguments that has no nowait.
    _method(50, 50, "queue.unbind", "C", "ticket:u16! queue:ss exchange:ss routing_key:ss arguments:tbl"),
    _method(50, 51, "queue.unbind-ok", "S"),
    _method(60, 10, "basic.qos", "C", "prefetch_size:u32 prefetch_count:u16 global:bit"),
    _method(60, 11, "basic.qos-ok", "S"),
    _method(
        60,
        20,
        "basic.consume",
        "C",
        "ticket:u16! queue:ss consumer_tag:ss no_local:bit no_ack:bit exclusive:bit nowait:bit arguments:tbl",
    ),
    _method(60, 21, "basic.consume-ok", "S", "consumer_tag:ss"),
    _method(60, 30, "basic.cancel", "CS", "consumer_tag:ss nowait:bit"),
    _method(60, 31, "basic.cancel-ok", "CS", "consumer_tag:ss"),
    _method(60, 40, "basic.publish", "C", "ticket:u16! exchange:ss routing_key:ss mandatory:bit immediate:bit"),
    _method(60, 50, "basic.return", "S", "reply_code:u16 reply_text:ss exchange:ss routing_key:ss"),
    _method(
        60, 60, "basic.deliver", "S", "consumer_tag:ss delivery_tag:u64 redelivered:bit exchange:ss routing_key:ss"
    ),
    _method(60, 70, "basic.get", "C", "ticket:u16! queue:ss no_ack:bit"),
    _method(
        60, 71, "basic.get-ok", "S", "delivery_tag:u64 redelivered:bit exchange:ss routing_key:ss message_count:u32"
    ),
    _method(60, 72, "basic.get-empty", "S", "cluster_id:ss!"),
    _method(60, 80, "basic.ack", "CS", "delivery_tag:u64 multiple:bit"),
    _method(60, 90, "basic.reject", "C", "delivery_tag:u64 requeue:bit"),
    _method(60, 100, "basic.recover-async", "C", "requeue:bit"),
    _method(60, 110, "basic.recover", "C", "requeue:bit"),
    _method(60, 111, "basic.recover-ok", "S"),
    _method(60, 120, "basic.nack", "CS", "delivery_tag:u64 multiple:bit requeue:bit"),
    _method(85, 10, "confirm.select", "C", "nowait:bit"),
    _method(85, 11, "confirm.select-ok", "S"),
    _method(90, 10, "tx.select", "C"),
    _method(90, 11, "tx.select-ok", "S"),
    _method(90, 20, "tx.commit", "C"),
    _method(90, 21, "tx.commit-ok", "S"),
    _method(90, 30, "tx.rollback", "C"),
    _method(90, 31, "tx.rollback-ok", "S"),
)

# RabbitMQ knows these ids and refuses them. leveret knows only their ids and names.
REFUSED_IDS: Final[tuple[tuple[int, int, str], ...]] = (
    (60, 200, "basic.credit"),
    (60, 201, "basic.credit-ok"),
    (60, 202, "basic.credit-drained"),
)

# RabbitMQ checks the UTF-8 of every other short string in a client's method (seen on 4.3).
ANY_OCTETS: Final = frozenset({"basic.publish"})
