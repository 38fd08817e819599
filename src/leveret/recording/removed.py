"""What was taken out of one message, found again where it stands in another spelling.

A value is found in upper and lower case, composed or not, and with characters in the escapes of URLs, HTML, JSON and
Python. A value that is one word or one number is found as a whole one only: "anna" is not in "hannah". A value of less
than four characters is not searched for: it stands elsewhere for other reasons. This file knows neither rules nor JSON.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final
from unicodedata import normalize
from urllib.parse import unquote_to_bytes

_SOUGHT_MIN: Final = 4
_PERCENT: Final = re.compile(r"%(?:25)*([0-9A-Fa-f]{2})")
# An escape, which may itself be escaped, or any other character.
_UNIT: Final = re.compile(
    r"(?P<url>(?:%(?:25)*[0-9A-Fa-f]{2})+)"
    r"|&(?:amp;)*(?P<html>\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});"
    r"|\\+u(?P<high>[dD][89abAB][0-9A-Fa-f]{2})\\+u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2})"
    r"|\\+(?:u(?P<four>[0-9A-Fa-f]{4})|x(?P<two>[0-9A-Fa-f]{2})|(?P<control>[bfnrt])|(?P<quoted>)(?=[^\\]|$))"
    r"|.",
    re.S,
)
_SPACE: Final = re.compile(r"[\s+]")
_ESCAPING: Final = re.compile(r"[%&\\+]")
_WORD: Final = re.compile(r"[^\W_]+")
_LETTER: Final = r"[^\W\d_]"
# The numbers that are written out; a larger or smaller one has an exponent.
_WRITTEN_OUT: Final = (Decimal("1e-18"), Decimal("1e30"))


class Removed:
    """Texts and numbers that were taken out of a message, and what stands in their place."""

    def __init__(self) -> None:
        self._given: Final[dict[str, str]] = {}
        # The pattern and the replacements by spelling, without and with escapes; None if something was added since.
        self._found: list[tuple[re.Pattern[str], dict[str, str]]] | None = None

    def __bool__(self) -> bool:
        return bool(self._given)

    def add(self, value: Any, replacement: str) -> None:
        """Add a text or a number."""
        self._found = None
        self._given[str(value)] = replacement
        if not isinstance(value, str):
            self._given[number_text(value)] = replacement

    def swapped(self, text: str) -> str:
        """Return a text with each spelling of what was taken out replaced."""
        parts, at = [], 0
        for start, end, folded in sorted(self._places(text), key=lambda place: (place[0], -place[1])):
            if start >= at:
                parts += [text[at:start], self._given.get(text[start:end], folded)]
            at = max(at, end)
        return "".join([*parts, text[at:]])

    def swapped_number(self, value: Any) -> Any:
        """Return a number, or another one if it was taken out, so that what reads the field still takes it."""
        for pattern, replacements in self._patterns()[:1]:
            found = pattern.fullmatch(number_text(value))
            if found:
                replacement = replacements[found[0]]
                return int(replacement) if replacement.isdecimal() else 0
        return value

    def _places(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where something stands that was taken out, and its replacement."""
        for is_escaped, (pattern, replacements) in enumerate(self._patterns()):
            if is_escaped and not _ESCAPING.search(text):
                return
            if text.isascii() and not is_escaped and not pattern.search(text.lower()):
                continue
            folded, spans = _folded(text, is_escaped=bool(is_escaped))
            for found in pattern.finditer(folded):
                yield spans[found.start()][0], spans[found.end() - 1][1], replacements[found[0]]

    def _patterns(self) -> list[tuple[re.Pattern[str], dict[str, str]]]:
        if self._found is None:
            self._found = [made for is_escaped in (False, True) if (made := self._pattern(is_escaped=is_escaped))]
        return self._found

    def _pattern(self, *, is_escaped: bool) -> tuple[re.Pattern[str], dict[str, str]] | None:
        # What stands in place of something is found as itself, so that nothing is found within it.
        texts = {text: text for text in self._given.values()} | self._given
        replacements = {_folded(text, is_escaped=is_escaped)[0]: new for text, new in texts.items()}
        sought = sorted((text for text in replacements if len(text) >= _SOUGHT_MIN), key=len, reverse=True)
        return (re.compile("|".join(map(_whole, sought))), replacements) if sought else None


def number_text(value: Any) -> str:
    """Return the text of a number, without an exponent or zeros at its end if that is short."""
    number = Decimal(str(value))
    if not number.is_finite() or not (number == 0 or _WRITTEN_OUT[0] < abs(number) < _WRITTEN_OUT[1]):
        return str(value)
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _whole(folded: str) -> str:
    """Return the pattern of a value: if it is one word, as a whole one."""
    pattern = re.escape(folded)
    if not _WORD.fullmatch(normalize("NFC", folded)):
        return pattern
    before, after = (r"\d" if end.isdecimal() else _LETTER for end in (folded[0], folded[-1]))
    return f"(?<!{before}){pattern}(?!{after})"


def _folded(text: str, *, is_escaped: bool) -> tuple[str, list[tuple[int, int]]]:
    """Return a text as all its spellings have it, and from where to where each of its characters stood."""
    units = _units(text) if is_escaped else ((char, at, at + 1) for at, char in enumerate(text))
    folded, spans = [], []
    for plain, start, end in units:
        same = normalize("NFKD", plain).casefold()
        # A space may be written as "+", which may be written as "%2B"; a backslash may be one of an escape.
        same = _SPACE.sub(" ", same).replace("\\", "") if is_escaped else same
        folded.append(same)
        spans += [(start, end)] * len(same)
    return "".join(folded), spans


def _units(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each character of a text without its escape, from where to where it stands."""
    for found in _UNIT.finditer(text):
        if found["url"]:
            yield from _of_url(found["url"], found.start())
        else:
            yield _plain(found), found.start(), found.end()


def _plain(found: re.Match[str]) -> str:
    if found["html"]:
        return html.unescape(f"&{found['html']};")
    if found["high"]:
        return bytes.fromhex(found["high"] + found["low"]).decode("utf-16-be")
    if found["four"] or found["two"]:
        return chr(int(found["four"] or found["two"], 16))
    if found["control"]:
        return " "
    return "" if found["quoted"] is not None else found[0]


def _of_url(run: str, start: int) -> Iterator[tuple[str, int, int]]:
    tokens = list(_PERCENT.finditer(run))
    octets = unquote_to_bytes("".join([f"%{token[1]}" for token in tokens]))
    try:
        plain, sizes = octets.decode(), None
    except UnicodeDecodeError:
        plain, sizes = octets.decode("latin-1"), 1
    at = 0
    for char in plain:
        size = sizes or len(char.encode())
        yield char, start + tokens[at].start(), start + tokens[at + size - 1].end()
        at += size
