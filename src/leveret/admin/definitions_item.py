"""One object in a definitions file, whose values are checked as they are read.

The error about a missing or wrong value names the object and the key, so that you can correct a hand-written file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from leveret.core.model.operators.patterns import compiled, is_too_long
from leveret.core.wire.values import Table
from leveret.errors import BrokerError, expected
from leveret.observe.calls.calls import shown, wrong_table, wrong_text

_MISSING: Final = object()


class Item:
    """One object of one section."""

    def __init__(
        self, section: str, what: str, named_by: Sequence[str], index: int, values: Mapping[str, object]
    ) -> None:
        """Keep the values. `what` the object is, and the values of the keys in `named_by`, are for error messages."""
        self._values = values
        names = [shown(values[key]) for key in named_by if key in values]
        self.place = f"{what} {' '.join(names)}" if names else f"number {index + 1} of {section!r}"

    def wrong(self, key: str, fault: str) -> BrokerError:
        """Return the error about the value of a key."""
        return BrokerError(f"definitions: {self.place}: {key!r} {fault}")

    def get(self, key: str, default: object = None) -> object:
        """Return the value of a key, unchecked."""
        return self._values.get(key, default)

    def text(self, key: str, default: object = _MISSING) -> str:
        """Return the string of a key."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"must be a string, not {value!r}")
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise self.wrong(key, f"has a lone surrogate, which UTF-8 cannot encode: {value!r}") from None
        return value

    def name(self, key: str) -> str:
        """Return the string of a key that clients have to send as a short string of AMQP."""
        value = self.text(key)
        wrong = wrong_text(repr(key), value)
        if wrong is not None:
            raise BrokerError(f"definitions: {self.place}: {wrong}")
        return value

    def table(self, key: str) -> Table:
        """Return the field table of a key."""
        value = self.mapping(key, {})
        wrong = wrong_table(key, value)
        if wrong is not None:
            raise BrokerError(f"definitions: {self.place}: {wrong}")
        return Table.from_python(value)

    def flag(self, key: str, default: object = _MISSING) -> bool:
        """Return the boolean of a key."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"must be true or false, not {value!r}")
        return value

    def number(self, key: str, default: object = _MISSING) -> int:
        """Return the integer of a key."""
        value = self._value(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(key, f"must be an integer, not {value!r}")
        return value

    def mapping(self, key: str, default: object = _MISSING) -> Mapping[str, object]:
        """Return the object of a key."""
        value = self._value(key, default)
        if value == []:
            # Erlang sometimes writes an empty object so.
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(key, f"must be an object, not {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the strings of a key: a list, or one string with commas, as old versions write it."""
        value = self._value(key, ())
        if isinstance(value, str):
            return tuple(filter(None, (each.strip() for each in value.split(","))))
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, f"must be a list of strings, not {value!r}")
        return tuple(value)

    def pattern(self, key: str, bytes_max: int | None) -> str:
        """Return the regular expression of a key, which has at most this many bytes."""
        pattern = self.text(key)
        if is_too_long(pattern, bytes_max):
            raise self.wrong(key, f"must have at most {bytes_max} bytes, not {len(pattern.encode())}")
        try:
            compiled(pattern)
        except re.error as error:
            raise self.wrong(key, f"must be a regular expression, not {pattern!r}: {error}") from None
        return pattern

    def word(self, key: str, known: Iterable[str], default: object = _MISSING) -> str:
        """Return the string of a key, which must be one of those known."""
        word = self.text(key, default)
        if word not in known:
            raise self.wrong(key, f"is {word!r}{expected(word, known)}")
        return word

    def limits(self, key: str, known: Sequence[str]) -> dict[str, int]:
        """Return the limits of a key, by name."""
        found = Item(key, self.place, (), 0, self.mapping(key, {}))
        found.place = self.place
        for name in found._values:
            if name not in known:
                raise self.wrong(key, f"has the unknown limit {name!r}{expected(name, known)}")
        return {name: found.number(name) for name in found._values}

    def _value(self, key: str, default: object) -> object:
        value = self._values.get(key, default)
        if value is _MISSING:
            raise self.wrong(key, "is missing")
        return value


def items(
    definitions: Mapping[str, object], section: str, what: str, named_by: Sequence[str] = ("name",)
) -> Iterator[Item]:
    """Yield the objects of one section. Raises BrokerError if the section is not a list of objects."""
    found = definitions.get(section, ())
    if not isinstance(found, (list, tuple)):
        raise BrokerError(f"definitions: {section!r} must be a list, not {found!r}")
    for index, values in enumerate(found):
        if not isinstance(values, Mapping):
            raise BrokerError(f"definitions: number {index + 1} of {section!r} must be an object, not {values!r}")
        yield Item(section, what, named_by, index, values)
