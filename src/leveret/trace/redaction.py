"""Redaction of headers: a trace file names every header, but hides the values of those that may hold secrets.

A value is hidden if the header's name contains one of the listed words, or has "pass" as a word of its own. Case and
separators do not matter: `X-Api-Key`, `api_key` and `apiKey` are the same name. Nested tables are redacted too.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Final

from leveret.wording import names_in, safe_text

# The text that replaces a hidden value.
REDACTED: Final = "(redacted)"
EVERYTHING: Final = "*"
ALWAYS: Final = (
    *("authorization", "bearer", "cookie", "credential", "jwt", "passphrase", "passwd", "password", "pwd"),
    *("secret", "token"),
    *("accesskey", "apikey", "privatekey", "sessionid"),
)
# These hide a value only as a whole word, because "passenger" and "compass" hold them too.
WHOLE: Final = frozenset({"pass"})
# The types of values that JSON has too.
_SIMPLE: Final = frozenset({str, int, bool, type(None)})
# How many names a redaction remembers.
_REMEMBERED: Final = 1_000
_SEPARATORS: Final = re.compile(r"[\W_]+")
# How the text of bytes begins that are not UTF-8.
_BASE64: Final = "base64:"
# A value as Python writes it, after the name it belongs to: `'token': 'x'`, `header 'token' 'x' instead of 'y'`.
_VALUE: Final = r"""(?:b?'(?:[^'\\]|\\.)*'|b?"(?:[^"\\]|\\.)*"|[^\s,;)}\]'"]+)"""
_NAMED: Final = re.compile(rf"""(?P<quote>['"])(?P<name>[^'"\n]+)(?P=quote)(?P<gap>: ?| (?=b?['"]|\d)){_VALUE}""")
_INSTEAD: Final = re.compile(rf"({re.escape(REDACTED)} instead of ){_VALUE}")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Redaction:
    """The names whose values are hidden."""

    __slots__ = ("_hidden", "_hides_all", "_secret")

    def __init__(self, names: str | Iterable[str] = ()) -> None:
        """Hide the values of `names` besides those of `ALWAYS`; "*" hides every value. A text may have several names.

        Raises ValueError if a name has no letter or digit.
        """
        given = names_in(names)
        self._hides_all = EVERYTHING in given
        words = [_plain_name(name) for name in given if name != EVERYTHING]
        if not all(words):
            raise ValueError(
                f"trace_redact={given!r} has a name without a letter or digit; give words of header names, or '*' to "
                "hide every value"
            )
        self._secret: Final = re.compile("|".join(map(re.escape, (*ALWAYS, *words))))
        # Whether the values of the names that came so far are hidden: most come again and again.
        self._hidden: Final[dict[str, bool]] = {}

    def hides(self, name: str) -> bool:
        """Return whether the value of this name is hidden."""
        known = self._hidden.get(name)
        if known is None:
            if len(self._hidden) >= _REMEMBERED:
                self._hidden.clear()
            known = self._hidden[name] = self._hides_all or self._is_secret(name)
        return known

    def _is_secret(self, name: str) -> bool:
        return self._secret.search(_plain_name(name)) is not None or not WHOLE.isdisjoint(words_of(name))

    def shown(self, table: Mapping[str, object]) -> dict[str, object]:
        """Return a table as values that JSON has, with `REDACTED` in place of hidden ones."""
        hides, value_of = self.hides, self._value
        return {
            name: REDACTED if hides(name) else value if type(value) in _SIMPLE else value_of(value)
            for name, value in table.items()
        }

    def text(self, text: str) -> str:
        """Return a text, such as a failed assertion's, with `REDACTED` in place of values that follow a hidden name."""
        return _INSTEAD.sub(rf"\1{REDACTED}", _NAMED.sub(self._named, text))

    def _named(self, found: re.Match[str]) -> str:
        quote, name, gap = found["quote"], found["name"], found["gap"]
        return f"{quote}{name}{quote}{gap}{REDACTED}" if self.hides(name) else found[0]

    def _value(self, value: object) -> object:
        if isinstance(value, Mapping):
            return self.shown(value)
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value]
        return plain(value)


def words_of(name: str) -> list[str]:
    """Return the words of a name such as `X-Api-Key`, `api_key` or `apiKey`, in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]


def plain(value: object, decimal: Callable[[Decimal], object] = str) -> object:
    """Return a value as one that JSON has: bytes as `body_text` does, dates in ISO 8601, decimals as text."""
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
            return decimal(value)
        case Mapping():
            return {safe_text(name, str): plain(item, decimal) for name, item in value.items()}
        case list() | tuple():
            return [plain(item, decimal) for item in value]
    return safe_text(value, str)


def body_text(body: bytes) -> str:
    """Return bytes as text: decoded if they are UTF-8, else `base64:` followed by their base64."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return f"{_BASE64}{base64.b64encode(body).decode()}"


def body_octets(text: str) -> bytes:
    """Return the bytes for which `body_text` stands.

    A body may itself be a text that begins so. It is taken for the bytes in its base64, if it has any.
    """
    if text.startswith(_BASE64):
        with suppress(ValueError):
            return base64.b64decode(text.removeprefix(_BASE64), validate=True)
    return text.encode("utf-8", "surrogatepass")


def _plain_name(name: str) -> str:
    return _SEPARATORS.sub("", name).lower()
