"""Values of JSON: what comes in is read by its type, and AMQP's tables go out (rabbit_misc:amqp_table, to_amqp_table).

Definitions and the bodies of the management API are read here, so a value of another type than its key has is refused
in one place. What a value means is checked where it is used.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from leveret.core.compat import Compat
from leveret.core.model.operators.patterns import is_too_long, name_pattern
from leveret.core.model.operators.pcre import UnsupportedError
from leveret.core.model.operators.policy_keys import printed
from leveret.core.wire import erlang
from leveret.core.wire.ordinary import tagged
from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.core.wire.values import Field, Table
from leveret.errors import BrokerError, expected
from leveret.observe.calls.calls import wrong_table, wrong_text

T = TypeVar("T")
Described = dict[str, object]
_MISSING: Final = object()
_INTEGER: Final = re.compile("[+-]?[0-9]+")
# Erlang breaks base64 in these texts after so many characters.
_BASE64_LINE: Final = 76


class WrongValue(BrokerError):
    """A value that RabbitMQ refuses, too; `reason` is what its API answers."""

    def __init__(self, text: str, reason: object) -> None:
        super().__init__(text)
        self.reason = reason


class UnmatchableValue(WrongValue):
    """A pattern that leveret cannot match, though RabbitMQ may."""


def described(table: Table) -> Described:
    """Return a table as JSON. Of duplicates the first counts."""
    values: Described = {}
    for name, field in table:
        values.setdefault(name, _plain(field))
    return values


def _plain(field: Field) -> object:
    """Return the value of a field as JSON: bytes as text, a timestamp as its seconds, a decimal as a number."""
    tag, value = field
    if isinstance(value, Table):
        return described(value)
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, tuple):
        if tag == "A":
            return [_plain(each) for each in value if isinstance(each, Field)]
        # RabbitMQ writes the scale before the point.
        return float("{}.{}".format(*value))
    return "undefined" if value is None else value


def text_of(octets: bytes) -> str:
    """Return bytes as text, if they are UTF-8."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        encoded = base64.b64encode(octets).decode()
        lines = [encoded[at : at + _BASE64_LINE] for at in range(0, len(encoded) + 1, _BASE64_LINE)]
        return "Not UTF-8, base64 is: " + "\n".join(lines)


def described_properties(properties: Properties) -> object:
    """Return a message's properties as JSON; none at all are an empty list, as RabbitMQ writes them."""
    values: Described = {}
    for name in PROPERTY_NAMES:
        value = getattr(properties, name)
        if value is not None:
            values[name] = described(value) if isinstance(value, Table) else value
    return values or []


def octets_of(text: str) -> bytes:
    """Return the bytes that base64 stands for, as Erlang reads it: white space is skipped. Raises ValueError."""
    return base64.b64decode(re.sub(r"[ \t\r\n]", "", text), validate=True)


class Item:
    """An object of JSON."""

    def __init__(self, values: Mapping[str, object], place: str = "") -> None:
        """Keep the values. `place` is what error messages call the object."""
        self.place = place
        self._values = values

    def wrong(self, key: str, fault: str, reason: object = None) -> WrongValue:
        """Return the error about the value of a key. RabbitMQ's reason is by default this one."""
        return self.refused(f"{key!r} {fault}", reason)

    def refused(self, text: str, reason: object = None) -> WrongValue:
        """Return the error about the object, with RabbitMQ's reason if it has one of its own."""
        place = f"{self.place}: {text}" if self.place else text
        return WrongValue(f"definitions: {place}" if self.place else place, place if reason is None else reason)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def get(self, key: str, default: object = None) -> object:
        """Return the value of a key, unchecked."""
        return self._values.get(key, default)

    def text(self, key: str, default: object = _MISSING, *, reason: object = None) -> str:
        """Return the string of a key. `reason` is RabbitMQ's for another type."""
        value = self._typed(key, default, str, "a string", reason)
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise self.wrong(key, f"has a lone surrogate, which UTF-8 cannot encode: {value!r}") from None
        return value

    def name(self, key: str, default: object = _MISSING) -> str:
        """Return the string of a key that clients have to send as a short string of AMQP."""
        value = self.text(key, default)
        wrong = wrong_text(repr(key), value)
        if wrong is not None:
            raise self.refused(str(wrong))
        return value

    def table(self, key: str) -> Table:
        """Return the field table of a key, with the types that RabbitMQ gives to values of JSON."""
        # Erlang sometimes writes an empty object as an empty list.
        return Table.EMPTY if self.get(key) == [] else _table_of(self, key, self.mapping(key, {}))

    def sendable_table(self, key: str) -> Table:
        """Return the field table of a key that clients could send."""
        value = self.get(key)
        wrong = wrong_table(key, value) if isinstance(value, Mapping) else None
        if wrong is not None:
            raise self.refused(str(wrong))
        return self.table(key)

    def flag(self, key: str, default: object = _MISSING) -> bool:
        """Return the boolean of a key."""
        return self._typed(key, default, bool, "true or false", ["not_boolean", self.get(key)])

    def parsed_flag(self, key: str) -> bool:
        """Return the boolean of a key, which may be a text, False if it is missing (rabbit_misc:parse_bool)."""
        value = self.get(key)
        return value == "true" if value in ("true", "false") else self.flag(key, False)

    def number(self, key: str, default: object = _MISSING, *, reason: object = None) -> int:
        """Return the integer of a key. `reason` is RabbitMQ's for another type."""
        return self._typed(key, default, int, "an integer", reason)

    def parsed_number(self, key: str) -> int:
        """Return the integer of a key, which may be a text or have a fraction (rabbit_misc:parse_int)."""
        value = self.get(key)
        if isinstance(value, float):
            return int(value)
        return (
            int(value)
            if isinstance(value, str) and _INTEGER.fullmatch(value)
            else self.number(key, reason=["not_integer", value])
        )

    def mapping(self, key: str, default: object = _MISSING) -> Mapping[str, object]:
        """Return the object of a key."""
        value = self.required(key, default)
        if not isinstance(value, Mapping):
            raise self.wrong(key, f"must be an object, not {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the strings of a key: a list, or one string with commas, as old versions write it."""
        value = self.required(key, ())
        if isinstance(value, str):
            return tuple([each.strip() for each in value.split(",")]) if value else ()
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, f"must be a list of strings, not {value!r}")
        return tuple([each.strip() for each in value])

    def pattern(self, key: str, compat: Compat, *, has_codes: bool = True) -> str:
        """Return the regular expression of a key. Raises UnmatchableValue if leveret cannot match it.

        RabbitMQ's reason shows a text as the codes of its bytes; that of a pattern itself only with `has_codes`.
        """
        pattern, bytes_max = self.text(key), compat.max_pattern_bytes
        if is_too_long(pattern, bytes_max):
            raise self.wrong(key, f"must have at most {bytes_max} bytes, not {len(pattern.encode())}")
        try:
            name_pattern(pattern, is_pcre2=compat.has_pcre2)
        except re.error as error:
            if isinstance(error, UnsupportedError):
                reason: list[object] = ["invalid_regexp", pattern, [error.msg, error.pos]]
                raise UnmatchableValue(str(error), reason) from None
            shown = list(pattern.encode("utf-8", "surrogateescape")) if has_codes else pattern
            reason = ["invalid_regexp", shown, [list(error.msg.encode()), error.pos]]
            raise self.wrong(key, f"must be a regular expression, not {pattern!r}: {error}", reason) from None
        return pattern

    def word(self, key: str, known: Iterable[str], default: object = _MISSING) -> str:
        """Return the string of a key, which must be one of those known."""
        word = self.text(key, default)
        if word not in known:
            raise self.wrong(key, f"is {word!r}{expected(word, known)}")
        return word

    def limits(self, key: str, known: Sequence[str], what: str) -> dict[str, int]:
        """Return the limits of a key, by name. `what` they are is for RabbitMQ's text."""
        limits = self.inner(key, {})
        unknown = sorted(name for name in limits if name not in known)
        if unknown:
            head = "Unrecognised terms "
            terms = erlang.listed((f"{{{printed(name)},{printed(limits.get(name))}}}" for name in unknown), len(head))
            fault = f"has the unknown limit {unknown[0]!r}{expected(unknown[0], known)}"
            raise self.wrong(key, fault, f"{head}{terms} in {what}")
        return {name: limits.limit(name) for name in limits}

    def limit(self, key: str) -> int:
        """Return the integer of a limit."""
        return self.number(key, reason=f"{key} should be a number, actually was {printed(self.get(key))}")

    def inner(self, key: str, default: object = _MISSING, place: str = "") -> Item:
        """Return the object of a key as an item, for errors in the same place or another one."""
        return Item(self.mapping(key, default), place or self.place)

    def required(self, key: str, default: object = _MISSING) -> object:
        """Return the value of a key, of any type. Raises WrongValue if it is missing and there is no default."""
        value = self._values.get(key, default)
        if value is _MISSING:
            raise self.wrong(key, "is missing")
        return value

    def _typed(self, key: str, default: object, kind: type[T], what: str, reason: object = None) -> T:
        value = self.required(key, default)
        # In Python a truth value is a number.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"must be {what}, not {value!r}", reason)
        return value


def _table_of(item: Item, key: str, value: Mapping[str, object]) -> Table:
    return Table(tuple([(name, _field_of(item, key, each)) for name, each in value.items()]))


def _field_of(item: Item, key: str, value: object) -> Field:
    """Return the field for a value. An integer is 64 bits long, and null is refused."""
    if value is None:
        raise item.wrong(key, "must have no null; leave out what has no value", "null_not_allowed")
    if isinstance(value, int) and not isinstance(value, bool):
        return Field("l", value)
    if isinstance(value, list | tuple):
        return Field("A", tuple([_field_of(item, key, each) for each in value]))
    if isinstance(value, Mapping):
        return Field("F", _table_of(item, key, value))
    return Field(*tagged(value))
