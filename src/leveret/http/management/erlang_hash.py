"""Erlang's phash2 of binding arguments: RabbitMQ ends the properties key of a binding with it.

The steps are those of make_hash2 in the emulator's erl_term_hashing.c, for the terms that arguments consist of. The
algorithm is fixed: Erlang promises the same hash in every version.
"""

from __future__ import annotations

import struct
from typing import Final

from leveret.core.wire.values import TYPE_NAMES, Field, Table

_MASK: Final = 0xFFFFFFFF
_GOLDEN: Final = 0x9E3779B9
_NIL: Final = 2
_SMALL_BITS: Final = 27


class Atom(str):
    """An atom, in contrast to a text, which is a binary."""

    __slots__ = ()


def hash_of_arguments(arguments: Table) -> bytes:
    """Return the hash of a table, sorted by name as RabbitMQ stores it, as four bytes."""
    return phash2(_entries(arguments.sorted())).to_bytes(4, "big")


def _entries(table: Table) -> list[object]:
    return [
        (name.encode("utf-8", "surrogateescape"), Atom(TYPE_NAMES[field.tag]), _value(field)) for name, field in table
    ]


def _value(field: Field) -> object:
    tag, value = field
    if isinstance(value, Table):
        return _entries(value)
    if value is None:
        return Atom("undefined")
    if isinstance(value, bool):
        return Atom("true" if value else "false")
    if tag == "A" and isinstance(value, tuple):
        return [(Atom(TYPE_NAMES[each.tag]), _value(each)) for each in value if isinstance(each, Field)]
    return value


def phash2(term: object) -> int:
    """Return the hash of a term: Python's lists, tuples, bytes, integers and floats, and atoms."""
    waiting, result = [term], 0
    while waiting:
        term = waiting.pop()
        if isinstance(term, Atom):
            name = _atom_hash(term)
            result = name if result == 0 else _mixed(result, name, 0, 3)
        elif isinstance(term, bytes):
            start = (_GOLDEN * 13 + result) & _MASK
            result = _block_hash(term, start) if term else start
        elif isinstance(term, int):
            result = _integer(result, term)
        elif isinstance(term, float):
            low, high = struct.unpack("<II", struct.pack("<d", term or 0.0))
            result = _mixed(result, high, low, 12)
        elif isinstance(term, tuple):
            result = _mixed(result, len(term), 0, 9)
            waiting += reversed(term)
        elif isinstance(term, list):
            if term:
                waiting += [term[1:], term[0]]
            else:
                result = 3468870702 if result == 0 else _mixed(result, _NIL, 0, 2)
    return result


def _integer(result: int, number: int) -> int:
    if -(1 << _SMALL_BITS) <= number < 1 << _SMALL_BITS:
        if number < 0:
            result = _mixed(result, -number, 0, 1)
        return _mixed(result, number & _MASK, 0, 1)
    size = abs(number)
    return _mixed(result, size & _MASK, size >> 32, 10 if number < 0 else 11)


def _mixed(result: int, first: int, second: int, factor: int) -> int:
    constant = _GOLDEN * factor
    return _mix((constant + first) & _MASK, (constant + second) & _MASK, result)[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for down, left, last in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = ((a - b - c) & _MASK) ^ (c >> down)
        b = ((b - c - a) & _MASK) ^ ((a << left) & _MASK)
        c = ((c - a - b) & _MASK) ^ (b >> last)
    return a, b, c


def _block_hash(octets: bytes, start: int) -> int:
    """Return Bob Jenkins' hash of some bytes."""
    a = b = _GOLDEN
    c = start
    whole = len(octets) // 12 * 12
    for at in range(0, whole, 12):
        one, two, three = struct.unpack_from("<III", octets, at)
        a, b, c = _mix((a + one) & _MASK, (b + two) & _MASK, (c + three) & _MASK)
    rest = octets[whole:].ljust(8, b"\0")
    one, two = struct.unpack_from("<II", rest)
    # The lowest byte of the last word is the length's.
    three = int.from_bytes(b"\0" + rest[8:], "little")
    return _mix((a + one) & _MASK, (b + two) & _MASK, (c + len(octets) + three) & _MASK)[2]


def _atom_hash(name: str) -> int:
    result = 0
    for letter in name.encode():
        result = (result << 4) + letter
        high = result & 0xF0000000
        if high:
            result ^= high >> 24
            result ^= high
    return result
