"""What of a message's headers goes into a trace file: every one by name, and its value unless the name forbids it.

A name forbids it that contains one of the words, whatever its case and whatever parts its words: `X-Api-Key`,
`api_key` and `apiKey` are alike. Tables inside tables are looked at too.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Final

# What stands in the place of a value.
REDACTED: Final = "(redacted)"
EVERYTHING: Final = "*"
ALWAYS: Final = (
    *("authorization", "bearer", "cookie", "credential", "jwt", "passphrase", "passwd", "password", "secret", "token"),
    *("accesskey", "apikey", "privatekey", "sessionid"),
)
_PARTING: Final = re.compile(r"[\W_]+")


class Redaction:
    """This knows which names a value is not shown under."""

    __slots__ = ("_hides_all", "_words")

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` are added to those of `ALWAYS`; "*" hides every value."""
        given = tuple(names)
        self._hides_all = EVERYTHING in given
        words = [_plain_name(name) for name in given if name != EVERYTHING]
        if not all(words):
            raise ValueError("trace_redact has a name without a letter or digit")
        self._words: Final = (*ALWAYS, *words)

    def hides(self, name: str) -> bool:
        """Whether the value of that name is not shown."""
        plain = _plain_name(name)
        return self._hides_all or any(word in plain for word in self._words)

    def shown(self, table: Mapping[str, object]) -> dict[str, object]:
        """The table in values that JSON has, without what is not shown."""
        return {name: REDACTED if self.hides(name) else self._value(value) for name, value in table.items()}

    def _value(self, value: object) -> object:
        if isinstance(value, Mapping):
            return self.shown(value)
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value]
        return plain(value)


def plain(value: object) -> object:
    """This value in JSON's own: octets that are no text as base64, dates in ISO 8601, decimals as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if isfinite(value) else str(value)
        case bytes():
            return body_text(value)
        case datetime():
            return value.isoformat()
        case Decimal():
            return str(value)
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return str(value)


def body_text(octets: bytes) -> str:
    """Octets as text: what they are if they are UTF-8, else base64 behind the word."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(octets).decode()}"


def _plain_name(name: str) -> str:
    return _PARTING.sub("", name).lower()
