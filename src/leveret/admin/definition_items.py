"""One object in a definitions file: its values by key, each asked for as what it has to be.

A value that is missing or of another kind is refused with the object and the key, so that a hand-written file can be
mended without a look into leveret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from leveret.errors import BrokerError, expected

_MISSING: Final = object()


class Item:
    """One object of one section."""

    def __init__(
        self, section: str, what: str, named_by: Sequence[str], index: int, values: Mapping[str, object]
    ) -> None:
        """`what` it is, and the keys that name it, are for the complaints."""
        self._values = values
        names = [repr(values[key]) for key in named_by if key in values]
        self.place = f"{what} {' '.join(names)}" if names else f"number {index + 1} of {section!r}"

    def wrong(self, key: str, fault: str) -> BrokerError:
        """What is to be raised for a key."""
        return BrokerError(f"definitions: {self.place}: {key!r} {fault}")

    def get(self, key: str, default: object = None) -> object:
        """The value of a key, whatever it is."""
        return self._values.get(key, default)

    def text(self, key: str, default: object = _MISSING) -> str:
        """The text of a key."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"is {value!r}, not a text")
        return value

    def flag(self, key: str, default: object = _MISSING) -> bool:
        """The truth of a key."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is {value!r}, neither true nor false")
        return value

    def number(self, key: str, default: object = _MISSING) -> int:
        """The whole number of a key."""
        value = self._value(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(key, f"is {value!r}, not a whole number")
        return value

    def mapping(self, key: str, default: object = _MISSING) -> Mapping[str, object]:
        """The object of a key."""
        value = self._value(key, default)
        if value == []:
            # How Erlang writes an empty object at times.
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(key, f"is {value!r}, not an object")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts of a key: a list, or one text with commas as old versions write it."""
        value = self._value(key, ())
        if isinstance(value, str):
            return tuple(filter(None, (each.strip() for each in value.split(","))))
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, f"is {value!r}, not a list of texts")
        return tuple(value)

    def pattern(self, key: str) -> str:
        """The regular expression of a key."""
        pattern = self.text(key)
        try:
            re.compile(pattern)
        except re.error as error:
            raise self.wrong(key, f"is {pattern!r}, which is no regular expression: {error}") from None
        return pattern

    def word(self, key: str, known: Iterable[str], default: object = _MISSING) -> str:
        """The text of a key, which is one of those known."""
        word = self.text(key, default)
        if word not in known:
            raise self.wrong(key, f"is {word!r}{expected(word, known)}")
        return word

    def limits(self, key: str, known: Sequence[str]) -> dict[str, int]:
        """The limits of a key, by name."""
        found = Item(key, self.place, (), 0, self.mapping(key, {}))
        found.place = self.place
        for name in found._values:
            if name not in known:
                raise self.wrong(key, f"has the limit {name!r}{expected(name, known)}")
        return {name: found.number(name) for name in found._values}

    def _value(self, key: str, default: object) -> object:
        value = self._values.get(key, default)
        if value is _MISSING:
            raise self.wrong(key, "is missing")
        return value


def items(
    definitions: Mapping[str, object], section: str, what: str, named_by: Sequence[str] = ("name",)
) -> Iterator[Item]:
    """The objects of one section; raises BrokerError for a section that is no list of objects."""
    found = definitions.get(section, ())
    if not isinstance(found, (list, tuple)):
        raise BrokerError(f"definitions: {section!r} is no list")
    for index, values in enumerate(found):
        if not isinstance(values, Mapping):
            raise BrokerError(f"definitions: number {index + 1} of {section!r} is {values!r}, not an object")
        yield Item(section, what, named_by, index, values)
