"""Basic properties: what a content header says about a message.

Most messages are passed on with the octets they came with. Properties are decoded only if something reads them, and
never change: a change makes a copy. An absent property is None. Short strings are text in which octets that are not
UTF-8 become surrogates, because RabbitMQ does not check them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from struct import Struct
from struct import error as StructError
from typing import Final, Self, TypeAlias

from leveret.core.wire.errors import UndecodableProperties, UnknownFieldType
from leveret.core.wire.values import Table, encode_short_string

PropertyValue: TypeAlias = str | int | Table | None

# The domains.
ShortString: TypeAlias = str
Octet: TypeAlias = int
Timestamp: TypeAlias = int

_FLAGS: Final = Struct(">H")
_SIZE: Final = Struct(">I")
_TIMESTAMP: Final = Struct(">Q")


class Properties:
    """The fourteen properties of a message. Treat them as immutable; `replace` makes a changed copy.

    They are in the order of the wire, which is that of the flags from the highest bit down.
    """

    content_type: ShortString | None = None
    content_encoding: ShortString | None = None
    headers: Table | None = None
    delivery_mode: Octet | None = None
    priority: Octet | None = None
    correlation_id: ShortString | None = None
    reply_to: ShortString | None = None
    expiration: ShortString | None = None
    message_id: ShortString | None = None
    timestamp: Timestamp | None = None
    type: ShortString | None = None
    user_id: ShortString | None = None
    app_id: ShortString | None = None
    cluster_id: ShortString | None = None

    def __init__(self, **values: PropertyValue) -> None:
        """Raises TypeError for an unknown name."""
        for name, value in values.items():
            if name not in _DOMAINS:
                raise TypeError(f"no such property: {name}")
            setattr(self, name, value)

    @classmethod
    def decode(cls, octets: bytes) -> Properties:
        """Return the properties that flags and values encode. Raises `UndecodableProperties`."""
        # Hot: once per publish with properties of its own, so it does without `__init__`.
        properties = cls.__new__(cls)
        try:
            at = _read(properties, octets)
        except (IndexError, StructError, UnknownFieldType) as error:
            raise UndecodableProperties("a value is cut short or malformed") from error
        # A short string that runs past the end is noticed only here.
        if at != len(octets):
            raise UndecodableProperties("the values do not end where the header does")
        return properties

    def encode(self) -> bytes:
        """Return flags and values. Raises `ShortStringTooLong`."""
        flags = 0
        parts = [b""]
        for number, (name, domain) in enumerate(_DOMAINS.items()):
            value = getattr(self, name)
            if value is None:
                continue
            flags |= 0x8000 >> number
            if domain == "ShortString":
                parts.append(encode_short_string(value))
            elif domain == "Octet":
                parts.append(b"%c" % value)
            else:
                parts.append(value.encode() if domain == "Table" else _TIMESTAMP.pack(value))
        parts[0] = _FLAGS.pack(flags)
        return b"".join(parts)

    def replace(self, **changes: PropertyValue) -> Self:
        """Return a copy with these properties set, or removed where the new value is None.

        Raises TypeError for an unknown name.
        """
        return type(self)(**{**self.__dict__, **changes})

    @classmethod
    def from_python(cls, mapping: Mapping[str, object]) -> Self:
        """Return properties by name.

        Headers may be a mapping, the timestamp a datetime. Raises TypeError or ValueError.
        """
        changes: dict[str, PropertyValue] = {}
        for name, value in mapping.items():
            match value:
                case None | int() | Table():
                    changes[name] = value
                case str() if name != "headers":
                    changes[name] = value
                case Mapping():
                    changes[name] = Table.from_python(value)
                case _:
                    changes[name] = _seconds(name, value)
        return cls(**changes)

    def to_python(self) -> dict[str, object]:
        """Return the properties that are present, by name, with headers as a dictionary of Python values."""
        values = self.present()
        if self.headers is not None:
            values["headers"] = self.headers.to_python()
        return values

    def present(self) -> dict[str, object]:
        """Return the properties that are present, by name, with headers as a table."""
        return {name: value for name in PROPERTY_NAMES if (value := getattr(self, name)) is not None}

    def __eq__(self, other: object) -> bool:
        return self.present() == other.present() if isinstance(other, Properties) else NotImplemented

    def __repr__(self) -> str:
        return f"Properties({', '.join(f'{name}={value!r}' for name, value in self.present().items())})"


# The domain of each property.
_DOMAINS: Final = {name: annotation.removesuffix(" | None") for name, annotation in Properties.__annotations__.items()}
PROPERTY_NAMES: Final = tuple(_DOMAINS)


def _seconds(name: str, value: object) -> int:
    from datetime import datetime

    if not isinstance(value, datetime):
        raise TypeError(f"property {name} cannot be {value!r}")
    return int(value.timestamp())


def _read(properties: Properties, octets: bytes) -> int:
    """Set the properties that the flags announce, and return where the last value ends."""
    at = 2
    for name, domain in _announced(_FLAGS.unpack_from(octets, 0)[0]):
        value: PropertyValue
        if domain == "ShortString":
            start = at + 1
            at = start + octets[at]
            value = octets[start:at].decode("utf-8", "surrogateescape")
        elif domain == "Octet":
            value = octets[at]
            at += 1
        elif domain == "Timestamp":
            value = _TIMESTAMP.unpack_from(octets, at)[0]
            at += 8
        else:
            start = at + 4
            at = start + _SIZE.unpack_from(octets, at)[0]
            if at > len(octets):
                raise UndecodableProperties("the headers are cut short")
            value = Table.decode(octets[start:at])
        setattr(properties, name, value)
    return at


@cache
def _announced(flags: int) -> tuple[tuple[str, str], ...]:
    """Return the properties that flags announce, with their domains.

    The two lowest flags are ignored, including the one that announces more flags. More flags are then excess octets.
    """
    return tuple(item for number, item in enumerate(_DOMAINS.items()) if flags & 0x8000 >> number)
