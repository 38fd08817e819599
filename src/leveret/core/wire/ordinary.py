"""Conversion between Python values, as tests use them, and the values of fields.

`Table.from_python` and `Table.to_python` build on it. A client's fields are kept as they arrived, so a conversation
never needs it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite

# A field's tag and its value, if that is neither a table nor an array.
Tagged = tuple[str, bool | int | float | bytes | tuple[int, int] | None]


class Timestamp(int):
    """A moment in seconds since 1970, which a header or an argument holds as a timestamp.

    RabbitMQ takes any 64 bits. Up to the year 9999, where Python's calendar ends, a timestamp is read as a `datetime`,
    and later as this number.
    """

    __slots__ = ()


def ordinary(tag: str, value: object) -> object:
    """Return the Python value of a field that is neither a table nor an array."""
    if tag == "S" and isinstance(value, bytes):
        return _text_or_octets(value)
    if tag == "T" and isinstance(value, int):
        return _datetime_or_seconds(value)
    return _decimal(*value) if tag == "D" and isinstance(value, tuple) else value


def _text_or_octets(octets: bytes) -> str | bytes:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


def _datetime_or_seconds(seconds: int) -> datetime | Timestamp:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return Timestamp(seconds)


def _decimal(scale: object, unscaled: object) -> Decimal:
    assert isinstance(scale, int)
    assert isinstance(unscaled, int)
    return Decimal(unscaled).scaleb(-scale)


def tagged(value: object) -> Tagged:
    """Return the tag that clients choose for a Python value, and the value as a field holds it.

    Raises TypeError for a type that no field has, and ValueError for a number that fits into none.
    """
    match value:
        case None:
            return "V", None
        case bool():
            return "t", value
        case Timestamp():
            return _timestamp(int(value))
        case int():
            return _integer(value)
        case float():
            # Erlang's floats are finite. RabbitMQ refuses a client that sends another.
            if not isfinite(value):
                raise ValueError(f"a field table cannot hold {value}")
            return "d", value
        case str():
            return "S", value.encode("utf-8", "surrogateescape")
        case bytes():
            return "S", value
        case datetime():
            return _timestamp(int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()))
        case Decimal():
            return _tagged_decimal(value)
    raise TypeError(f"a field table cannot hold {type(value).__name__}: {value!r}")


def _timestamp(seconds: int) -> Tagged:
    if not 0 <= seconds < 2**64:
        raise ValueError(f"{seconds} seconds since 1970 do not fit into 64 bits without sign")
    return "T", seconds


def _integer(value: int) -> Tagged:
    if -(2**31) <= value < 2**31:
        return "I", value
    if -(2**63) <= value < 2**63:
        return "l", value
    raise ValueError(f"{value} does not fit into 64 bits")


def _tagged_decimal(value: Decimal) -> Tagged:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"a field table cannot hold {value}")
    scale = max(0, -exponent)
    unscaled = int(value.scaleb(scale))
    if scale > 255 or not 0 <= unscaled < 2**32:
        raise ValueError(f"{value} does not fit into a scale of 8 bits and a value of 32 bits without sign")
    return "D", (scale, unscaled)
