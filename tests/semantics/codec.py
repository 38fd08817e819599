"""The test client's own AMQP 0-9-1 codec: methods, field tables with wire tags, properties, frames.

It is independent of leveret's codec on purpose. Decoding keeps the tag of every table value; encoding lets a scenario
choose it (``Field("s", 5)``).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

_SPEC = """
10 10 connection.start version_major:octet version_minor:octet server_properties:table mechanisms:longstr locales:longstr
10 11 connection.start-ok client_properties:table mechanism:shortstr response:longstr locale:shortstr
10 20 connection.secure challenge:longstr
10 21 connection.secure-ok response:longstr
10 30 connection.tune channel_max:short frame_max:long heartbeat:short
10 31 connection.tune-ok channel_max:short frame_max:long heartbeat:short
10 40 connection.open virtual_host:shortstr capabilities:shortstr insist:bit
10 41 connection.open-ok known_hosts:shortstr
10 50 connection.close reply_code:short reply_text:shortstr class_id:short method_id:short
10 51 connection.close-ok
10 60 connection.blocked reason:shortstr
10 61 connection.unblocked
10 70 connection.update-secret new_secret:longstr reason:shortstr
10 71 connection.update-secret-ok
20 10 channel.open out_of_band:shortstr
20 11 channel.open-ok channel_id:longstr
20 20 channel.flow active:bit
20 21 channel.flow-ok active:bit
20 40 channel.close reply_code:short reply_text:shortstr class_id:short method_id:short
20 41 channel.close-ok
30 10 access.request realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit
30 11 access.request-ok ticket:short
40 10 exchange.declare ticket:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit nowait:bit arguments:table
40 11 exchange.declare-ok
40 20 exchange.delete ticket:short exchange:shortstr if_unused:bit nowait:bit
40 21 exchange.delete-ok
40 30 exchange.bind ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
40 31 exchange.bind-ok
40 40 exchange.unbind ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
40 51 exchange.unbind-ok
50 10 queue.declare ticket:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit nowait:bit arguments:table
50 11 queue.declare-ok queue:shortstr message_count:long consumer_count:long
50 20 queue.bind ticket:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit arguments:table
50 21 queue.bind-ok
50 30 queue.purge ticket:short queue:shortstr nowait:bit
50 31 queue.purge-ok message_count:long
50 40 queue.delete ticket:short queue:shortstr if_unused:bit if_empty:bit nowait:bit
50 41 queue.delete-ok message_count:long
50 50 queue.unbind ticket:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
50 51 queue.unbind-ok
60 10 basic.qos prefetch_size:long prefetch_count:short global_:bit
60 11 basic.qos-ok
60 20 basic.consume ticket:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit nowait:bit arguments:table
60 21 basic.consume-ok consumer_tag:shortstr
60 30 basic.cancel consumer_tag:shortstr nowait:bit
60 31 basic.cancel-ok consumer_tag:shortstr
60 40 basic.publish ticket:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
60 50 basic.return reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
60 60 basic.deliver consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
60 70 basic.get ticket:short queue:shortstr no_ack:bit
60 71 basic.get-ok delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long
60 72 basic.get-empty cluster_id:shortstr
60 80 basic.ack delivery_tag:longlong multiple:bit
60 90 basic.reject delivery_tag:longlong requeue:bit
60 100 basic.recover-async requeue:bit
60 110 basic.recover requeue:bit
60 111 basic.recover-ok
60 120 basic.nack delivery_tag:longlong multiple:bit requeue:bit
60 200 basic.credit consumer_tag:shortstr credit:long drain:bit
85 10 confirm.select nowait:bit
85 11 confirm.select-ok
90 10 tx.select
90 11 tx.select-ok
90 20 tx.commit
90 21 tx.commit-ok
90 30 tx.rollback
90 31 tx.rollback-ok
"""  # noqa: E501


class MethodSpec(NamedTuple):
    """One method: its two ids, its name, its fields in wire order."""

    class_id: int
    method_id: int
    name: str
    fields: tuple[tuple[str, str], ...]


def _parse(line: str) -> MethodSpec:
    class_id, method_id, name, *fields = line.split()
    pairs = tuple((field.split(":")[0], field.split(":")[1]) for field in fields)
    return MethodSpec(int(class_id), int(method_id), name, pairs)


METHODS = {spec.name: spec for spec in map(_parse, _SPEC.strip().splitlines())}
METHODS_BY_ID = {(spec.class_id, spec.method_id): spec for spec in METHODS.values()}
CONTENT_METHODS = ("basic.return", "basic.deliver", "basic.get-ok")

PROPERTIES = (
    ("content_type", "shortstr"),
    ("content_encoding", "shortstr"),
    ("headers", "table"),
    ("delivery_mode", "octet"),
    ("priority", "octet"),
    ("correlation_id", "shortstr"),
    ("reply_to", "shortstr"),
    ("expiration", "shortstr"),
    ("message_id", "shortstr"),
    ("timestamp", "longlong"),
    ("type", "shortstr"),
    ("user_id", "shortstr"),
    ("app_id", "shortstr"),
    ("cluster_id", "shortstr"),
)
_NUMBERS = {"octet": "B", "short": "H", "long": "I", "longlong": "Q"}
_SCALARS = {
    "t": "B",
    "b": "b",
    "B": "B",
    "s": "h",
    "u": "H",
    "I": "i",
    "i": "I",
    "l": "q",
    "L": "Q",
    "f": "f",
    "d": "d",
}
_SCALARS |= {"T": "Q"}


class Field(NamedTuple):
    """A table value with its wire tag; tables are tuples of (name as bytes, Field), arrays tuples of Field."""

    tag: str
    value: object


def octets(text: str | bytes) -> bytes:
    """Return text as UTF-8; bytes stay as they are."""
    return text if isinstance(text, bytes) else text.encode()


def typed(value: object) -> Field:
    """Return the value with the tag that common clients would choose; a Field stays as it is."""
    match value:
        case Field():
            return value
        case bool():
            return Field("t", value)
        case int():
            return Field("I" if -(2**31) <= value < 2**31 else "l", value)
        case float():
            return Field("d", value)
        case str() | bytes():
            return Field("S", value)
        case Mapping():
            return Field("F", value)
        case Sequence():
            return Field("A", value)
        case None:
            return Field("V", None)
    raise TypeError(f"no wire type for {value!r}")


def shortstr(text: str | bytes) -> bytes:
    raw = octets(text)
    return bytes([len(raw)]) + raw


def longstr(text: str | bytes) -> bytes:
    raw = octets(text)
    return struct.pack(">I", len(raw)) + raw


def encode_table(entries: Mapping[str, object] | Sequence[tuple[str, object]]) -> bytes:
    """Return a table with its length; a list of pairs may repeat a name."""
    pairs = entries.items() if isinstance(entries, Mapping) else entries
    return longstr(b"".join(shortstr(name) + encode_field(value) for name, value in pairs))


def encode_field(value: object) -> bytes:
    """Return the tag and the bytes of one value."""
    tag, inner = typed(value)
    return tag.encode() + _encode_inner(tag, inner)


def _encode_inner(tag: str, inner: object) -> bytes:
    if isinstance(inner, bytes) and tag not in "Sx":
        return inner  # bytes of the scenario's choice, also under an odd tag
    if tag in _SCALARS:
        return struct.pack(">" + _SCALARS[tag], inner)
    match tag, inner:
        case (("S" | "x"), (str() | bytes())):
            return longstr(inner)
        case "A", _ if isinstance(inner, Sequence):
            return longstr(b"".join(map(encode_field, inner)))
        case "F", _ if isinstance(inner, Mapping | Sequence):
            return encode_table(inner)
        case "D", (scale, number):
            return struct.pack(">BI", scale, number)
        case "V", _:
            return b""
    raise TypeError(f"no encoding for {tag} {inner!r}")


class Reader:
    """A cursor over bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes; the server is broken if there are too few."""
        part = self.data[self.position : self.position + count]
        if len(part) < count:
            raise ValueError(f"server sent too few bytes: {self.data!r}")
        self.position += count
        return part

    def number(self, code: str) -> int | float:
        """Return one struct value, big-endian."""
        return struct.unpack(">" + code, self.take(struct.calcsize(code)))[0]

    def shortstr(self) -> bytes:
        return self.take(int(self.number("B")))

    def longstr(self) -> bytes:
        return self.take(int(self.number("I")))

    def table(self) -> tuple[tuple[bytes, Field], ...]:
        """Return a table with its tags, in wire order."""
        inner = Reader(self.longstr())
        entries = []
        while inner.position < len(inner.data):
            entries.append((inner.shortstr(), inner.field()))
        return tuple(entries)

    def field(self) -> Field:
        """Return one tagged value."""
        tag = self.take(1).decode("latin-1")
        if tag in _SCALARS:
            return Field(tag, self.number(_SCALARS[tag]))
        match tag:
            case "S" | "x":
                return Field(tag, self.longstr())
            case "F":
                return Field(tag, self.table())
            case "A":
                inner, items = Reader(self.longstr()), []
                while inner.position < len(inner.data):
                    items.append(inner.field())
                return Field(tag, tuple(items))
            case "D":
                return Field(tag, (self.number("B"), self.number("I")))
            case "V":
                return Field(tag, None)
        raise ValueError(f"server sent an unknown table tag {tag!r}")

    def value(self, kind: str) -> object:
        """Return a method field or property that is not a bit."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        return {"shortstr": self.shortstr, "longstr": self.longstr, "table": self.table}[kind]()


def _encode_value(kind: str, value: object) -> bytes:
    if kind in _NUMBERS:
        return struct.pack(">" + _NUMBERS[kind], value)
    return {"shortstr": shortstr, "longstr": longstr, "table": encode_table}[kind](value)  # type: ignore[operator]


_EMPTY: dict[str, object] = {"shortstr": "", "longstr": "", "table": {}, "bit": False}


def encode_arguments(name: str, **fields: object) -> bytes:
    """Return the argument bytes of a method; fields that are not given are empty, zero or false."""
    spec, parts, bits = METHODS[name], [], []
    unknown = set(fields) - {field for field, _ in spec.fields}
    if unknown:
        raise TypeError(f"{name} has no fields {sorted(unknown)}")
    for field, kind in spec.fields:
        value = fields.get(field, _EMPTY.get(kind, 0))
        if kind == "bit":
            bits.append(bool(value))
            continue
        parts += [_pack_bits(bits), _encode_value(kind, value)]
        bits = []
    return b"".join(parts) + _pack_bits(bits)


def _pack_bits(bits: list[bool]) -> bytes:
    return bytes([sum(bit << index for index, bit in enumerate(bits))]) if bits else b""


def encode_method(name: str, **fields: object) -> bytes:
    """Return the payload of a method frame."""
    spec = METHODS[name]
    return struct.pack(">HH", spec.class_id, spec.method_id) + encode_arguments(name, **fields)


def decode_method(payload: bytes) -> tuple[str, dict[str, object]]:
    """Return the name and fields of a method from the server; the server is broken if bytes are left over."""
    reader = Reader(payload)
    spec = METHODS_BY_ID[int(reader.number("H")), int(reader.number("H"))]
    fields: dict[str, object] = {}
    bits = bit_count = 0
    for field, kind in spec.fields:
        if kind != "bit":
            fields[field], bit_count = reader.value(kind), 0
            continue
        if bit_count == 0:
            bits = int(reader.number("B"))
        fields[field] = bool(bits >> bit_count & 1)
        bit_count += 1
    if reader.position != len(payload):
        raise ValueError(f"bytes left after {spec.name}: {payload[reader.position :]!r}")
    return spec.name, fields


def encode_properties(**properties: object) -> bytes:
    """Return the flags and values; properties that are not given are absent."""
    flags, parts = 0, []
    unknown = set(properties) - {name for name, _ in PROPERTIES}
    if unknown:
        raise TypeError(f"no such properties: {sorted(unknown)}")
    for bit, (name, kind) in zip(range(15, 1, -1), PROPERTIES, strict=True):
        if name in properties:
            flags |= 1 << bit
            parts.append(_encode_value(kind, properties[name]))
    return struct.pack(">H", flags) + b"".join(parts)


def decode_properties(reader: Reader) -> dict[str, object]:
    """Return the properties that are present."""
    flags = int(reader.number("H"))
    if flags & 3:
        raise ValueError(f"server sent property flags {flags:#x}")
    present = [pair for bit, pair in zip(range(15, 1, -1), PROPERTIES, strict=True) if flags >> bit & 1]
    return {name: reader.value(kind) for name, kind in present}


def encode_header(body_size: int, properties: bytes, class_id: int = 60, weight: int = 0) -> bytes:
    """Return the payload of a content header frame."""
    return struct.pack(">HHQ", class_id, weight, body_size) + properties


def frame(kind: int, channel: int, payload: bytes, end: int = FRAME_END) -> bytes:
    """Return one frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])
