"""The error for a publish that cannot be encoded: which argument is wrong, and what to write instead.

This module is imported only once encoding has failed. It then tries each argument by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import error as StructError
from typing import Final

from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.errors import unknown_keyword
from leveret.observe.calls.calls import shown, wrong_table, wrong_text

# The valid values of the properties that are not text.
_NUMBERS: Final = {
    "delivery_mode": "a number from 0 to 255",
    "priority": "a number from 0 to 255",
    "timestamp": "a datetime, or whole seconds since 1970",
}
_OTHER_ARGUMENTS: Final = ("exchange", "routing_key", "body", "json", "mandatory", "vhost")


def unsendable(
    call: str, exchange: object, routing_key: object, body: bytes, properties: Mapping[str, object]
) -> TypeError | ValueError:
    """Return the error for arguments that cannot be encoded."""
    wrong = wrong_text("exchange", exchange)
    if wrong is None:
        wrong = wrong_text("routing_key", routing_key)
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
        return wrong_table(name, value)
    if name not in _NUMBERS:
        return wrong_text(name, value)
    try:
        Properties.from_python({name: value}).encode()
    except (AttributeError, TypeError, ValueError, OverflowError, StructError):
        kind = ValueError if isinstance(value, int) else TypeError
        return kind(f"{name} must be {_NUMBERS[name]}, not {shown(value)}")
    return None


def _with_key(exchange: object, routing_key: object) -> str:
    """Return the correct call for one that has a body in place of the routing key."""
    is_body = isinstance(routing_key, bytes | bytearray | memoryview)
    call = f"publish({shown(exchange)}, 'key', {'' if is_body else 'json='}{shown(routing_key)})"
    return f"the body comes after the routing key: {call if chr(34) in call else call.replace(chr(39), chr(34))}"
