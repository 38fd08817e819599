"""Ordinary values of Python and the fields that stand for them: what a test gives and is given.

A client's fields are kept as they came, so a conversation needs none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite

from leveret.core.wire.values import Field, Table


def value_of(field: Field) -> object:
    """The ordinary value of a field, as `Table.to_python` gives it."""
    tag, value = field
    if isinstance(value, Table):
        return value.to_python()
    if tag == "S" and isinstance(value, bytes):
        return _text_or_octets(value)
    if tag == "T" and isinstance(value, int):
        return _datetime_or_seconds(value)
    if isinstance(value, tuple):
        return _decimal(*value) if tag == "D" else [value_of(item) for item in value if isinstance(item, Field)]
    return value


def _text_or_octets(octets: bytes) -> str | bytes:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


def _datetime_or_seconds(seconds: int) -> datetime | int:
    """RabbitMQ takes any 64 bits for a timestamp; Python's calendar ends with the year 9999."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return seconds


def _decimal(scale: object, unscaled: object) -> Decimal:
    assert isinstance(scale, int)
    assert isinstance(unscaled, int)
    return Decimal(unscaled).scaleb(-scale)


def field_of(value: object) -> Field:
    """The field that clients choose for an ordinary value; raises TypeError or ValueError."""
    match value:
        case Field():
            return value
        case Table():
            return Field("F", value)
        case None:
            return Field("V", None)
        case bool():
            return Field("t", value)
        case int():
            return _integer(value)
        case float():
            # Erlang's floats are finite: a client that sent another would be refused.
            if not isfinite(value):
                raise ValueError(f"a field table cannot hold {value}")
            return Field("d", value)
        case str():
            return Field("S", value.encode("utf-8", "surrogateescape"))
        case bytes():
            return Field("S", value)
        case datetime():
            return Field("T", int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()))
        case Decimal():
            return _decimal_field(value)
        case list() | tuple():
            return Field("A", tuple([field_of(item) for item in value]))
        case Mapping():
            return Field("F", Table.from_python(value))
    raise TypeError(f"a field table cannot hold {type(value).__name__}: {value!r}")


def _integer(value: int) -> Field:
    if -(2**31) <= value < 2**31:
        return Field("I", value)
    if -(2**63) <= value < 2**63:
        return Field("l", value)
    raise ValueError(f"{value} does not fit into 64 bits")


def _decimal_field(value: Decimal) -> Field:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"a field table cannot hold {value}")
    scale = max(0, -exponent)
    unscaled = int(value.scaleb(scale))
    if scale > 255 or not 0 <= unscaled < 2**32:
        raise ValueError(f"{value} does not fit into a scale of 8 bits and a value of 32 bits without sign")
    return Field("D", (scale, unscaled))
