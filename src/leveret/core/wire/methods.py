"""The methods of AMQP 0-9-1 and RabbitMQ's additions to it, a class each in the order of their ids, and their codec.

A class declares its fields in wire order, each with its AMQP domain as its type. Consecutive bits share a byte; the
first bit is the lowest, and unused bits are ignored. A field that is annotated as ClassVar is reserved: it is on the
wire, but methods do not carry it. A client's value is checked and dropped, and the server writes an empty one.
`senders` says who sends the method: "C" a client, "S" the server. So a class needs no docstring.

A payload is that of a whole method frame; its arguments begin after the four-byte id. `Method.decode` and
`Method.encode` read the declaration. The methods that a broker handles most have a decoder or an encoder of their own,
which do the same.
"""

from __future__ import annotations

import re
from functools import cache
from struct import Struct
from struct import error as StructError
from typing import ClassVar, Final, Self, TypeAlias, dataclass_transform

from leveret.core.wire.errors import MalformedUtf8, Undecodable
from leveret.core.wire.values import Table, encode_long_string, encode_short_string

# The domains, besides Table.
Bit: TypeAlias = bool
Octet: TypeAlias = int
Short: TypeAlias = int
Long: TypeAlias = int
LongLong: TypeAlias = int
ShortString: TypeAlias = str
LongString: TypeAlias = bytes

_B: Final = Struct(">B")
_I: Final = Struct(">I")
_IQB: Final = Struct(">IQB")
_QB: Final = Struct(">QB")
_NUMBERS: Final = {"Octet": _B, "Short": Struct(">H"), "Long": _I, "LongLong": Struct(">Q")}
_RESERVED: Final = "ClassVar["

# What the server writes in a reserved field.
_EMPTY: Final = {"Bit": bytes(1), "Short": bytes(2), "ShortString": bytes(1), "LongString": bytes(4)}

# A domain and the names of its fields: several for the bits of a byte, otherwise one, and None for a reserved field.
_Part: TypeAlias = tuple[str, list[str | None]]


@dataclass_transform(eq_default=False)
class _Declaration(type):
    """The metaclass of methods: it makes ids, a name and slots of the declaration of a class."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, object],
        ids: tuple[int, int] = (0, 0),
        senders: str = "",
    ) -> _Declaration:
        if bases:
            fields = body.get("__annotations__", {})
            assert isinstance(fields, dict)
            class_name, *words = re.findall("[A-Z][a-z]*", name)
            body["ID"] = ids[0] << 16 | ids[1]
            body["NAME"] = f"{class_name}.{'-'.join(words)}".lower()
            body["SENDERS"] = senders
            body["FIELDS"] = fields
            names = [field for field, domain in fields.items() if not domain.startswith(_RESERVED)]
            body["__slots__"] = body["__match_args__"] = tuple(names)
        return super().__new__(mcs, name, bases, body)


class Method(metaclass=_Declaration):
    """The base of all methods: an id, a name, and fields listed in `__match_args__` in wire order."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    # Class id in the upper, method id in the lower 16 bits.
    ID: ClassVar[int]
    NAME: ClassVar[str]
    SENDERS: ClassVar[str]
    # The annotations by name.
    FIELDS: ClassVar[dict[str, str]]

    def __init__(self, *values: object) -> None:
        for name, value in zip(self.__match_args__, values, strict=True):
            setattr(self, name, value)

    @classmethod
    def decode(cls, payload: bytes, errors: str = "strict") -> Self:
        """Return the method in a whole payload.

        Raises `Undecodable` if the arguments are too short or too long, then `MalformedUtf8` or `UnknownFieldType` for
        the first field that is either. `errors` says what is done about short strings that are not UTF-8, as in
        `bytes.decode`.
        """
        parts = _parts_of(cls)
        values: list[object] = []
        try:
            for (domain, names), piece in zip(parts, _pieces(parts, payload), strict=True):
                value: object = piece
                if isinstance(piece, int):
                    if domain == "Bit":
                        values += [piece & 1 << bit != 0 for bit, name in enumerate(names) if name]
                        continue
                elif domain == "ShortString":
                    value = piece.decode("utf-8", errors)
                elif domain == "Table":
                    value = Table.decode(piece)
                if names[0]:
                    values.append(value)
        except UnicodeDecodeError:
            raise MalformedUtf8 from None
        return cls(*values)

    def encode(self) -> bytes:
        """Return the whole payload. Raises `ShortStringTooLong`."""
        octets = [_I.pack(self.ID)]
        for domain, names in _parts_of(type(self)):
            if names[0] is None:
                octets.append(_EMPTY[domain])
                continue
            value = getattr(self, names[0])
            if domain == "Bit":
                octets.append(_B.pack(sum(getattr(self, name) << bit for bit, name in enumerate(names) if name)))
            elif domain == "ShortString":
                octets.append(encode_short_string(value))
            elif domain == "LongString":
                octets.append(encode_long_string(value))
            elif domain == "Table":
                octets.append(value.encode())
            else:
                octets.append(_NUMBERS[domain].pack(value))
        return b"".join(octets)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({fields})"


@cache
def _parts_of(method: type[Method]) -> list[_Part]:
    """Return the parts of a method's arguments on the wire."""
    parts: list[_Part] = []
    for name, annotation in method.FIELDS.items():
        domain = annotation.removeprefix(_RESERVED).removesuffix("]")
        if domain != "Bit" or not parts or parts[-1][0] != "Bit":
            parts.append((domain, []))
        parts[-1][1].append(name if domain == annotation else None)
    return parts


def _pieces(parts: list[_Part], payload: bytes) -> list[int | bytes]:
    """Return a number, or the octets of a string or table, for each part. Raises `Undecodable` if they do not fit."""
    pieces: list[int | bytes] = []
    at = 4
    try:
        for domain, _ in parts:
            if domain == "Bit":
                pieces.append(payload[at])
                at += 1
            elif domain in _NUMBERS:
                number = _NUMBERS[domain]
                pieces.append(number.unpack_from(payload, at)[0])
                at += number.size
            else:
                start = at + (1 if domain == "ShortString" else 4)
                at = start + (payload[at] if domain == "ShortString" else _I.unpack_from(payload, at)[0])
                pieces.append(payload[start:at])
    except (IndexError, StructError):
        raise Undecodable(payload[4:]) from None
    if at != len(payload):
        raise Undecodable(payload[4:])
    return pieces


class ConnectionStart(Method, ids=(10, 10), senders="S"):
    version_major: Octet
    version_minor: Octet
    server_properties: Table
    mechanisms: LongString
    locales: LongString


class ConnectionStartOk(Method, ids=(10, 11), senders="C"):
    client_properties: Table
    mechanism: ShortString
    response: LongString
    locale: ShortString


class ConnectionSecure(Method, ids=(10, 20), senders="S"):
    challenge: LongString


class ConnectionSecureOk(Method, ids=(10, 21), senders="C"):
    response: LongString


class ConnectionTune(Method, ids=(10, 30), senders="S"):
    channel_max: Short
    frame_max: Long
    heartbeat: Short


class ConnectionTuneOk(Method, ids=(10, 31), senders="C"):
    channel_max: Short
    frame_max: Long
    heartbeat: Short


class ConnectionOpen(Method, ids=(10, 40), senders="C"):
    virtual_host: ShortString
    capabilities: ClassVar[ShortString]
    insist: ClassVar[Bit]


class ConnectionOpenOk(Method, ids=(10, 41), senders="S"):
    known_hosts: ClassVar[ShortString]


class ConnectionClose(Method, ids=(10, 50), senders="CS"):
    reply_code: Short
    reply_text: ShortString
    class_id: Short
    method_id: Short


class ConnectionCloseOk(Method, ids=(10, 51), senders="CS"): ...


class ConnectionBlocked(Method, ids=(10, 60), senders="S"):
    reason: ShortString


class ConnectionUnblocked(Method, ids=(10, 61), senders="S"): ...


class ConnectionUpdateSecret(Method, ids=(10, 70), senders="C"):
    new_secret: LongString
    reason: ShortString


class ConnectionUpdateSecretOk(Method, ids=(10, 71), senders="S"): ...


class ChannelOpen(Method, ids=(20, 10), senders="C"):
    out_of_band: ClassVar[ShortString]


class ChannelOpenOk(Method, ids=(20, 11), senders="S"):
    channel_id: ClassVar[LongString]


class ChannelFlow(Method, ids=(20, 20), senders="CS"):
    active: Bit


class ChannelFlowOk(Method, ids=(20, 21), senders="CS"):
    active: Bit


class ChannelClose(Method, ids=(20, 40), senders="CS"):
    reply_code: Short
    reply_text: ShortString
    class_id: Short
    method_id: Short


class ChannelCloseOk(Method, ids=(20, 41), senders="CS"): ...


class AccessRequest(Method, ids=(30, 10), senders="C"):
    realm: ShortString
    exclusive: Bit
    passive: Bit
    active: Bit
    write: Bit
    read: Bit


class AccessRequestOk(Method, ids=(30, 11), senders="S"):
    ticket: Short


class ExchangeDeclare(Method, ids=(40, 10), senders="C"):
    ticket: ClassVar[Short]
    exchange: ShortString
    type: ShortString
    passive: Bit
    durable: Bit
    auto_delete: Bit
    internal: Bit
    nowait: Bit
    arguments: Table


class ExchangeDeclareOk(Method, ids=(40, 11), senders="S"): ...


class ExchangeDelete(Method, ids=(40, 20), senders="C"):
    ticket: ClassVar[Short]
    exchange: ShortString
    if_unused: Bit
    nowait: Bit


class ExchangeDeleteOk(Method, ids=(40, 21), senders="S"): ...


class ExchangeBind(Method, ids=(40, 30), senders="C"):
    ticket: ClassVar[Short]
    destination: ShortString
    source: ShortString
    routing_key: ShortString
    nowait: Bit
    arguments: Table


class ExchangeBindOk(Method, ids=(40, 31), senders="S"): ...


class ExchangeUnbind(Method, ids=(40, 40), senders="C"):
    ticket: ClassVar[Short]
    destination: ShortString
    source: ShortString
    routing_key: ShortString
    nowait: Bit
    arguments: Table


# The method id is 51 and not 41: RabbitMQ assigned the number so and keeps it.
class ExchangeUnbindOk(Method, ids=(40, 51), senders="S"): ...


class QueueDeclare(Method, ids=(50, 10), senders="C"):
    ticket: ClassVar[Short]
    queue: ShortString
    passive: Bit
    durable: Bit
    exclusive: Bit
    auto_delete: Bit
    nowait: Bit
    arguments: Table


class QueueDeclareOk(Method, ids=(50, 11), senders="S"):
    queue: ShortString
    message_count: Long
    consumer_count: Long


class QueueBind(Method, ids=(50, 20), senders="C"):
    ticket: ClassVar[Short]
    queue: ShortString
    exchange: ShortString
    routing_key: ShortString
    nowait: Bit
    arguments: Table


class QueueBindOk(Method, ids=(50, 21), senders="S"): ...


class QueuePurge(Method, ids=(50, 30), senders="C"):
    ticket: ClassVar[Short]
    queue: ShortString
    nowait: Bit


class QueuePurgeOk(Method, ids=(50, 31), senders="S"):
    message_count: Long


class QueueDelete(Method, ids=(50, 40), senders="C"):
    ticket: ClassVar[Short]
    queue: ShortString
    if_unused: Bit
    if_empty: Bit
    nowait: Bit


class QueueDeleteOk(Method, ids=(50, 41), senders="S"):
    message_count: Long


class QueueUnbind(Method, ids=(50, 50), senders="C"):
    ticket: ClassVar[Short]
    queue: ShortString
    exchange: ShortString
    routing_key: ShortString
    arguments: Table


class QueueUnbindOk(Method, ids=(50, 51), senders="S"): ...


class BasicQos(Method, ids=(60, 10), senders="C"):
    prefetch_size: Long
    prefetch_count: Short
    global_: Bit


class BasicQosOk(Method, ids=(60, 11), senders="S"): ...


class BasicConsume(Method, ids=(60, 20), senders="C"):
    ticket: ClassVar[Short]
    queue: ShortString
    consumer_tag: ShortString
    no_local: Bit
    no_ack: Bit
    exclusive: Bit
    nowait: Bit
    arguments: Table


class BasicConsumeOk(Method, ids=(60, 21), senders="S"):
    consumer_tag: ShortString


class BasicCancel(Method, ids=(60, 30), senders="CS"):
    consumer_tag: ShortString
    nowait: Bit


class BasicCancelOk(Method, ids=(60, 31), senders="CS"):
    consumer_tag: ShortString


class BasicPublish(Method, ids=(60, 40), senders="C"):
    ticket: ClassVar[Short]
    exchange: ShortString
    routing_key: ShortString
    mandatory: Bit
    immediate: Bit

    def __init__(self, exchange: str, routing_key: str, mandatory: bool, immediate: bool) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.immediate = immediate

    @classmethod
    def decode(cls, payload: bytes, errors: str = "strict") -> Self:
        """Return the method in a whole payload; raises `Undecodable`.

        RabbitMQ checks the UTF-8 of short strings in every method of a client except this one (seen on 4.3).
        """
        try:
            exchange_end = 7 + payload[6]
            routing_key_end = exchange_end + 1 + payload[exchange_end]
            bits = payload[routing_key_end]
        except IndexError:
            raise Undecodable(payload[4:]) from None
        if routing_key_end + 1 != len(payload):
            raise Undecodable(payload[4:])
        return cls(
            payload[7:exchange_end].decode("utf-8", "surrogateescape"),
            payload[exchange_end + 1 : routing_key_end].decode("utf-8", "surrogateescape"),
            bits & 1 != 0,
            bits & 2 != 0,
        )


class BasicReturn(Method, ids=(60, 50), senders="S"):
    reply_code: Short
    reply_text: ShortString
    exchange: ShortString
    routing_key: ShortString


class BasicDeliver(Method, ids=(60, 60), senders="S"):
    consumer_tag: ShortString
    delivery_tag: LongLong
    redelivered: Bit
    exchange: ShortString
    routing_key: ShortString


class BasicGet(Method, ids=(60, 70), senders="C"):
    ticket: ClassVar[Short]
    queue: ShortString
    no_ack: Bit


class BasicGetOk(Method, ids=(60, 71), senders="S"):
    delivery_tag: LongLong
    redelivered: Bit
    exchange: ShortString
    routing_key: ShortString
    message_count: Long


class BasicGetEmpty(Method, ids=(60, 72), senders="S"):
    cluster_id: ClassVar[ShortString]


class BasicAck(Method, ids=(60, 80), senders="CS"):
    delivery_tag: LongLong
    multiple: Bit

    def __init__(self, delivery_tag: int, multiple: bool) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple

    @classmethod
    def decode(cls, payload: bytes, errors: str = "strict") -> Self:
        """Return the method in a whole payload; raises as `Method.decode` does."""
        if len(payload) != 13:
            raise Undecodable(payload[4:])
        delivery_tag, bits = _QB.unpack_from(payload, 4)
        return cls(delivery_tag, bits & 1 != 0)

    def encode(self) -> bytes:
        """Return the whole payload."""
        return _IQB.pack(self.ID, self.delivery_tag, self.multiple)


class BasicReject(Method, ids=(60, 90), senders="C"):
    delivery_tag: LongLong
    requeue: Bit

    def __init__(self, delivery_tag: int, requeue: bool) -> None:
        self.delivery_tag = delivery_tag
        self.requeue = requeue

    @classmethod
    def decode(cls, payload: bytes, errors: str = "strict") -> Self:
        """Return the method in a whole payload; raises as `Method.decode` does."""
        if len(payload) != 13:
            raise Undecodable(payload[4:])
        delivery_tag, bits = _QB.unpack_from(payload, 4)
        return cls(delivery_tag, bits & 1 != 0)


class BasicRecoverAsync(Method, ids=(60, 100), senders="C"):
    requeue: Bit


class BasicRecover(Method, ids=(60, 110), senders="C"):
    requeue: Bit


class BasicRecoverOk(Method, ids=(60, 111), senders="S"): ...


class BasicNack(Method, ids=(60, 120), senders="CS"):
    delivery_tag: LongLong
    multiple: Bit
    requeue: Bit

    def __init__(self, delivery_tag: int, multiple: bool, requeue: bool) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple
        self.requeue = requeue

    @classmethod
    def decode(cls, payload: bytes, errors: str = "strict") -> Self:
        """Return the method in a whole payload; raises as `Method.decode` does."""
        if len(payload) != 13:
            raise Undecodable(payload[4:])
        delivery_tag, bits = _QB.unpack_from(payload, 4)
        return cls(delivery_tag, bits & 1 != 0, bits & 2 != 0)


class ConfirmSelect(Method, ids=(85, 10), senders="C"):
    nowait: Bit


class ConfirmSelectOk(Method, ids=(85, 11), senders="S"): ...


class TxSelect(Method, ids=(90, 10), senders="C"): ...


class TxSelectOk(Method, ids=(90, 11), senders="S"): ...


class TxCommit(Method, ids=(90, 20), senders="C"): ...


class TxCommitOk(Method, ids=(90, 21), senders="S"): ...


class TxRollback(Method, ids=(90, 30), senders="C"): ...


class TxRollbackOk(Method, ids=(90, 31), senders="S"): ...


METHODS: Final[dict[int, type[Method]]] = {method.ID: method for method in Method.__subclasses__()}

# RabbitMQ knows these methods and refuses them. leveret knows only their ids and names.
REFUSED_NAMES: Final = {
    (60 << 16) | 200: "basic.credit",
    (60 << 16) | 201: "basic.credit-ok",
    (60 << 16) | 202: "basic.credit-drained",
}
