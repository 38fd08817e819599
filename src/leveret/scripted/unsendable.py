"""The error for a publish that cannot be encoded: which argument is wrong, and what to write instead.

This module is imported only once encoding has failed. It then tries each argument by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import Repr
from struct import error as StructError
from typing import Final

from leveret.core.wire.errors import ShortStringTooLong
from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.core.wire.values import Table, encode_short_string
from leveret.errors import unknown_keyword

_LONGEST: Final = 255
# The valid values of the properties that are not text.
_NUMBERS: Final = {
    "delivery_mode": "a number from 0 to 255",
    "priority": "a number from 0 to 255",
    "timestamp": "a datetime, or whole seconds since 1970",
}
_OTHER_ARGUMENTS: Final = ("exchange", "routing_key", "body", "json", "mandatory", "vhost")
_shortened: Final = Repr()
_shortened.maxstring = _shortened.maxother = 60


def unsendable(
    call: str, exchange: object, routing_key: object, body: bytes, properties: Mapping[str, object]
) -> TypeError | ValueError:
    """Return the error for arguments that cannot be encoded."""
    wrong = _wrong_text("exchange", exchange)
    if wrong is None:
        wrong = _wrong_text("routing_key", routing_key)
        if isinstance(wrong, TypeError) and not body:
            wrong = TypeError(f"{wrong}; {_with_key(exchange, routing_key)}")
    for name, value in properties.items():
        if name not in PROPERTY_NAMES:
            return unknown_keyword(call, name, (*_OTHER_ARGUMENTS, *PROPERTY_NAMES))
        if wrong is None and value is not None:
            wrong = _wrong_property(name, value)
    assert wrong is not None, "every argument can be encoded by itself"
    return type(wrong)(f"{call}: {wrong}")


def _wrong_property(name: str, value: object) -> TypeError | ValueError | None:
    if name == "headers":
        return _wrong_headers(value)
    if name not in _NUMBERS:
        return _wrong_text(name, value)
    try:
        Properties.from_python({name: value}).encode()
    except (AttributeError, TypeError, ValueError, OverflowError, StructError):
        kind = ValueError if isinstance(value, int) else TypeError
        return kind(f"{name} must be {_NUMBERS[name]}, not {_shortened.repr(value)}")
    return None


def _wrong_headers(headers: object) -> TypeError | ValueError | None:
    if isinstance(headers, Table):
        headers = dict(headers)
    if not isinstance(headers, Mapping):
        return TypeError(f"headers must be a mapping of names to values, not {_shortened.repr(headers)}")
    for name, value in headers.items():
        wrong = _wrong_text("header name", name) or _wrong_header(name, value)
        if wrong is not None:
            return wrong
    return None


def _wrong_header(name: str, value: object) -> TypeError | ValueError | None:
    place = f"headers[{_shortened.repr(name)}]"
    try:
        Table.from_python({name: value}).encode()
    except RecursionError:
        return ValueError(f"{place} is nested too deeply; use fewer levels")
    except UnicodeEncodeError as error:
        return ValueError(f"{place} has a lone surrogate, which UTF-8 cannot encode: {_shortened.repr(error.object)}")
    except ShortStringTooLong:
        return ValueError(f"{place} has a name of more than {_LONGEST} bytes: {_shortened.repr(value)}")
    except (AttributeError, TypeError) as error:
        return TypeError(f"{place} cannot be a header: {error}")
    except (ValueError, OverflowError, StructError) as error:
        return ValueError(f"{place} cannot be a header: {error}")
    return None


def _wrong_text(name: str, value: object) -> TypeError | ValueError | None:
    """Return the error for a value that cannot be encoded as a short string, or None if it can."""
    shown = _shortened.repr(value)
    if not isinstance(value, str):
        return TypeError(f"{name} must be text, not {shown}")
    try:
        encode_short_string(value)
    except UnicodeEncodeError:
        return ValueError(f"{name} {shown} has a lone surrogate, which UTF-8 cannot encode")
    except ShortStringTooLong:
        size = len(value.encode("utf-8", "surrogateescape"))
        return ValueError(f"{name} {shown} is {size} bytes long; AMQP allows {_LONGEST}")
    return None


def _with_key(exchange: object, routing_key: object) -> str:
    """Return the correct call for one that has a body in place of the routing key."""
    is_body = isinstance(routing_key, bytes | bytearray | memoryview)
    call = f"publish({_shortened.repr(exchange)}, 'key', {'' if is_body else 'json='}{_shortened.repr(routing_key)})"
    return f"the body comes after the routing key: {call if chr(34) in call else call.replace(chr(39), chr(34))}"
