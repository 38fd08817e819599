"""Values printed as Erlang prints them, for RabbitMQ's error texts.

It covers what those texts contain: atoms, binaries, integers, floats, strings and the tuples around them, and the
values of fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from leveret.core.wire.values import TYPE_NAMES, Field, Table, Value

# How far a line of a term that `~p` prints may reach.
LINE_WIDTH: Final = 78
_PLAIN_ATOM: Final = r"[a-z][A-Za-z0-9_@]*"
_PRINTABLE: Final = frozenset({8, 9, 10, 11, 12, 13, 27, *range(32, 127), *range(160, 256)})
_ESCAPES: Final = {8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e", 34: '\\"', 92: "\\\\"}


def binary(octets: bytes) -> str:
    """Return octets as `~p` prints a binary: `<<"text">>` if printable, else `<<1,2,3>>`."""
    if octets and all(octet in _PRINTABLE for octet in octets):
        return f"<<{string(octets)}>>"
    return binary_numbers(octets)


def atom(name: str) -> str:
    """Return an atom, in quotes unless it is a plain word."""
    return name if re.fullmatch(_PLAIN_ATOM, name) else f"'{name}'"


def binary_numbers(octets: bytes) -> str:
    """Return octets as `~w` prints a binary: always as numbers."""
    return f"<<{','.join(map(str, octets))}>>"


def string(octets: bytes) -> str:
    """Return octets as a double-quoted string."""
    return '"' + "".join(_ESCAPES.get(octet) or chr(octet) for octet in octets) + '"'


def pair(name: str, value: str, column: int) -> str:
    """Return the tuple of an atom and a printed value as `~p` prints it at that column: in two lines if it is long."""
    line = f"{{{name},{value}}}"
    if column + len(line) <= LINE_WIDTH:
        return line
    return f"{{{name},\n{' ' * (column + 1)}{value}}}"


def listed(items: Iterable[str], column: int) -> str:
    """Return a list of printed terms as `~p` prints it at that column: each on a line of its own if it is long."""
    terms = list(items)
    line = _list(terms)
    return line if column + len(line) <= LINE_WIDTH else f"[{f',{chr(10)}{chr(32) * (column + 1)}'.join(terms)}]"


def reason(value: list[object]) -> str:
    """Return the tuple that a list of a reason stands for: its first text is an atom, and codes are a string."""
    if value and all(isinstance(each, int) for each in value):
        return string(bytes(each for each in value if isinstance(each, int)))
    head = [atom(each) for each in value[:1] if isinstance(each, str)]
    rest = value[len(head) :]
    return f"{{{','.join([*head, *(reason(each) if isinstance(each, list) else _plain(each) for each in rest)])}}}"


def _plain(value: object) -> str:
    return utf8_binary(text(value)) if isinstance(value, str) else str(value).lower()


def float_text(value: float) -> str:
    """Return a float as Erlang prints it: the shortest digits that read back, with an exponent if that is shorter."""
    from decimal import Decimal

    sign, numbers, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits, minus = "".join(map(str, numbers)), "-" if sign else ""
    if value == 0:
        return f"{minus}0.0"
    # The number of digits before the point. If it is negative or larger than the number of digits, zeros fill the gap.
    point = len(digits) + int(exponent)
    power = str(point - 1)
    exponent_cost = len(power) + 1 + (2 if len(digits) == 1 else 1)
    scientific = f"{minus}{digits[0]}.{digits[1:] or '0'}e{power}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{digits}" if point == 0 or 2 - point <= exponent_cost else scientific
    if point >= len(digits):
        zeros = point - len(digits)
        return f"{minus}{digits}{'0' * zeros}.0" if zeros + 2 <= exponent_cost else scientific
    return f"{minus}{digits[:point]}.{digits[point:]}"


def shown(name: str) -> str:
    """Return a name for a text. Octets that are not UTF-8 appear as Latin-1."""
    octets = text(name)
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def text(value: str) -> bytes:
    """Return the octets of a name or key. Short strings are UTF-8, with invalid octets escaped as surrogates."""
    return value.encode("utf-8", "surrogateescape")


def term(value: Value) -> str:
    """Return a value as RabbitMQ 4.3 prints it: `5`, `true`, `<<"text">>`, `[{longstr,<<"a">>}]`.

    A void value is `undefined`.
    """
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, bytes):
        return utf8_binary(value)
    if isinstance(value, Table):
        return _list(f"{{{utf8_binary(text(name))},{_tagged(field)}}}" for name, field in value)
    return _sequence(value)


def utf8_binary(octets: bytes) -> str:
    """Return bytes as Erlang prints a binary; UTF-8 text beyond ASCII is marked as such."""
    if not octets.isascii():
        try:
            decoded = octets.decode("utf-8")
        except UnicodeDecodeError:
            return binary(octets)
        if decoded.isprintable():
            return f'<<"{decoded}"/utf8>>'.replace("\\", "\\\\")
    return binary(octets)


def _sequence(value: tuple[int, int] | tuple[Field, ...]) -> str:
    fields = [item for item in value if isinstance(item, Field)]
    if len(fields) == len(value):
        return _list(f"{{{_tagged(field)}}}" for field in fields)
    scale, unscaled = value
    return f"{{{scale},{unscaled}}}"


def _tagged(field: Field) -> str:
    return f"{TYPE_NAMES[field.tag]},{term(field.value)}"


def _list(items: Iterable[str]) -> str:
    return f"[{','.join(items)}]"
