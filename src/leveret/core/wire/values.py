"""Field tables and the typed values in them.

A `Field` keeps the tag its value had on the wire, so what a client sent goes out as it was sent. Two things change on
the way, as they do in RabbitMQ: "L" becomes a signed "l", and a boolean is sent as 0 or 1. Duplicate names are kept,
and the first one wins. Names are text in which octets that are not UTF-8 become surrogates, so any octets survive. This
module does not know what a header or an argument means.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from struct import Struct
from typing import ClassVar, Final, NamedTuple, TypeAlias

from leveret.core.wire.errors import ShortStringTooLong, UnknownFieldType

Value: TypeAlias = "bool | int | float | bytes | tuple[int, int] | Table | tuple[Field, ...] | None"

# How RabbitMQ names the types in its error texts.
TYPE_NAMES: Final[dict[str, str]] = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "A": "array",
    "T": "timestamp",
    "F": "table",
    "V": "void",
    "x": "binary",
}

# RabbitMQ sets no limit. This one keeps a client from exhausting Python's call stack.
NESTING_MAX: Final = 64

# The error handler of decoding that accepts what Erlang's xmerl_ucs takes for UTF-8.
NEARLY_UTF8: Final = "leveret.nearly_utf8"
_NEARLY_UTF8: Final = re.compile(
    rb"\xed[\xa0-\xbf][\x80-\xbf]|(?:\xf4[\x90-\xbf]|[\xf5-\xf7][\x80-\xbf])[\x80-\xbf]{2}"
)

_SIZE: Final = Struct(">I")
_DECIMAL: Final = Struct(">BI")
_NUMBERS: Final[dict[str, Struct]] = {
    "t": Struct(">?"),
    "b": Struct(">b"),
    "B": Struct(">B"),
    "s": Struct(">h"),
    "u": Struct(">H"),
    "I": Struct(">i"),
    "i": Struct(">I"),
    "l": Struct(">q"),
    "f": Struct(">f"),
    "d": Struct(">d"),
    "T": Struct(">Q"),
}
# For each tag octet: the tag it is kept under, how it is read, and its size.
_NUMBERS_READ: Final = {
    octet: (tag, _NUMBERS[tag].unpack_from, _NUMBERS[tag].size)
    for octet, tag in [*((ord(tag), tag) for tag in _NUMBERS), (ord("L"), "l")]
}
_SIZED_READ: Final[dict[int, str]] = {ord(tag): tag for tag in "SxAF"}


class Field(NamedTuple):
    """A value and its wire tag. A decimal is (scale, unscaled value), an array a tuple of fields."""

    tag: str
    value: Value


Entry: TypeAlias = tuple[str, Field]


def text_field(text: str) -> Field:
    """Return a long string with this text."""
    return Field("S", text.encode("utf-8", "surrogateescape"))


class Table:
    """A field table: names and fields in the order of the wire. It is immutable."""

    __slots__ = ("entries",)

    EMPTY: ClassVar[Table]

    def __init__(self, entries: tuple[Entry, ...] = ()) -> None:
        self.entries = entries

    @classmethod
    def decode(cls, octets: bytes) -> Table:
        """Return the table of this content, which is what follows the table's length. Raises `UnknownFieldType`."""
        if not octets:
            return cls.EMPTY
        return cls(_decode_entries(octets, 0, len(octets), NESTING_MAX))

    def encode(self) -> bytes:
        """Return the octets of the table, preceded by its length. Raises `ShortStringTooLong` for a name."""
        content = b"".join([encode_short_string(name) + _encode_field(field) for name, field in self.entries])
        return _SIZE.pack(len(content)) + content

    def get(self, name: str) -> Field | None:
        """Return the first field of that name, or None."""
        for own, field in self.entries:
            if own == name:
                return field
        return None

    def sorted(self) -> Table:
        """Return the table with its own names sorted by their octets."""
        return Table(tuple(sorted(self.entries, key=_name_octets)))

    def sorted_unique(self) -> Table:
        """Return the table with its own names sorted by their octets, and only the first of duplicates.

        Nested tables stay.
        """
        if len(self.entries) < 2:
            return self
        first: dict[bytes, Entry] = {}
        for entry in self.entries:
            first.setdefault(_name_octets(entry), entry)
        return Table(tuple([first[octets] for octets in sorted(first)]))

    def with_entry(self, name: str, field: Field) -> Table:
        """Return the table with that field in place of the first one of its name, or at the end."""
        for index, (own, _) in enumerate(self.entries):
            if own == name:
                return Table((*self.entries[:index], (name, field), *self.entries[index + 1 :]))
        return Table((*self.entries, (name, field)))

    def without(self, *names: str) -> Table:
        """Return the table without any field of these names."""
        return Table(tuple([entry for entry in self.entries if entry[0] not in names]))

    @classmethod
    def from_python(cls, mapping: Mapping[str, object]) -> Table:
        """Return a table of Python values, with the tags that clients choose. Raises TypeError or ValueError."""
        return cls(tuple([(name, _field_of(value)) for name, value in mapping.items()]))

    def to_python(self) -> dict[str, object]:
        """Return Python values by name, the first of duplicates. Long strings become text if they are UTF-8."""
        values: dict[str, object] = {}
        for name, field in self.entries:
            values.setdefault(name, _ordinary_of(field))
        return values

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __contains__(self, name: object) -> bool:
        return any(own == name for own, _ in self.entries)

    def __eq__(self, other: object) -> bool:
        return self.entries == other.entries if isinstance(other, Table) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        return f"Table({self.entries!r})"


Table.EMPTY = Table()


def _accept_nearly_utf8(error: UnicodeError) -> tuple[str, int]:
    """Return a surrogate, or a number beyond Unicode in four octets, as escaped octets, and where it ends."""
    surrogate = _NEARLY_UTF8.match(error.object, error.start) if isinstance(error, UnicodeDecodeError) else None
    if surrogate is None:
        raise error
    return surrogate[0].decode("utf-8", "surrogateescape"), surrogate.end()


codecs.register_error(NEARLY_UTF8, _accept_nearly_utf8)


def encode_short_string(text: str) -> bytes:
    """Return a short string, preceded by its length. Raises `ShortStringTooLong`."""
    octets = text.encode("utf-8", "surrogateescape")
    if len(octets) > 255:
        raise ShortStringTooLong(f"{len(octets)} octets")
    return b"%c%b" % (len(octets), octets)


def encode_long_string(octets: bytes) -> bytes:
    """Return a long string, preceded by its length."""
    return _SIZE.pack(len(octets)) + octets


def _field_of(value: object) -> Field:
    """Return the field that clients choose for a Python value."""
    from leveret.core.wire.ordinary import tagged

    if isinstance(value, Field):
        return value
    if isinstance(value, Table):
        return Field("F", value)
    if isinstance(value, Mapping):
        return Field("F", Table.from_python(value))
    if isinstance(value, list | tuple):
        return Field("A", tuple([_field_of(item) for item in value]))
    return Field(*tagged(value))


def _ordinary_of(field: Field) -> object:
    """Return the Python value of a field."""
    from leveret.core.wire.ordinary import ordinary

    tag, value = field
    if isinstance(value, Table):
        return value.to_python()
    if tag == "A" and isinstance(value, tuple):
        return [_ordinary_of(item) for item in value if isinstance(item, Field)]
    return ordinary(tag, value)


def _name_octets(entry: Entry) -> bytes:
    return entry[0].encode("utf-8", "surrogateescape")


def _decode_entries(octets: bytes, at: int, end: int, levels: int) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    while at < end:
        start = at + 1
        at = start + octets[at]
        name = octets[start:at].decode("utf-8", "surrogateescape")
        field, at = _decode_field(octets, at, end, levels)
        entries.append((name, field))
    return tuple(entries)


def _decode_array(octets: bytes, at: int, end: int, levels: int) -> tuple[Field, ...]:
    fields: list[Field] = []
    while at < end:
        field, at = _decode_field(octets, at, end, levels)
        fields.append(field)
    return tuple(fields)


def _decode_field(octets: bytes, at: int, end: int, levels: int) -> tuple[Field, int]:
    """Return the field whose tag is at `at`, and where the next one begins. Nothing is read from `end` on."""
    if at >= end:
        raise UnknownFieldType("a field table ends before a value")
    octet = octets[at]
    at += 1
    number = _NUMBERS_READ.get(octet)
    if number is not None:
        tag, unpack_from, size = number
        after = at + size
        if after > end:
            raise UnknownFieldType("a field table ends within a number")
        (value,) = unpack_from(octets, at)
        # Erlang's floats are finite. Its binary pattern does not match others (seen on 4.3, 4.0 and 3.10).
        if tag in "fd" and not isfinite(value):
            raise UnknownFieldType("a float that is not a number or infinite")
        return Field(tag, value), after
    sized = _SIZED_READ.get(octet)
    if sized is not None:
        return _decode_sized(sized, octets, at, end, levels)
    if octet == 0x56:  # V
        return _VOID, at
    if octet == 0x44:  # D
        if at + 5 > end:
            raise UnknownFieldType("a field table ends within a decimal")
        scale, unscaled = _DECIMAL.unpack_from(octets, at)
        return Field("D", (scale, unscaled)), at + 5
    raise UnknownFieldType(f"unknown tag {octet}")


def _decode_sized(tag: str, octets: bytes, at: int, end: int, levels: int) -> tuple[Field, int]:
    start = at + 4
    # If the length itself is cut short, there is nothing to unpack.
    after: int = start + _SIZE.unpack_from(octets, at)[0] if start <= end else start
    if after > end:
        raise UnknownFieldType("a field table ends within a value")
    if tag == "S" or tag == "x":
        return Field(tag, octets[start:after]), after
    if levels == 0:
        raise UnknownFieldType(f"tables nested more than {NESTING_MAX} deep")
    if tag == "A":
        return Field("A", _decode_array(octets, start, after, levels - 1)), after
    return Field("F", Table(_decode_entries(octets, start, after, levels - 1))), after


_VOID: Final = Field("V", None)


def _encode_field(field: Field) -> bytes:
    tag, value = field
    head = tag.encode("ascii")
    if isinstance(value, bytes):
        return head + encode_long_string(value)
    if isinstance(value, Table):
        return head + value.encode()
    if isinstance(value, tuple):
        if tag == "D":
            return head + _DECIMAL.pack(*value)
        return head + encode_long_string(b"".join([_encode_field(item) for item in value if isinstance(item, Field)]))
    return head if value is None else head + _NUMBERS[tag].pack(value)
