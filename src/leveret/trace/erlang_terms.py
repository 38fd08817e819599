"""A parser for printed Erlang terms, in which RabbitMQ's tracing plugin writes properties in its text format.

It reads lists, tuples, binaries, strings, numbers and atoms. A binary that is UTF-8 becomes a str, an atom its name.
"""

from __future__ import annotations

import re
from typing import Final

_SPACE: Final = re.compile(r"\s*")
_NUMBER: Final = re.compile(r"[-+]?\d+(\.\d+([eE][-+]?\d+)?)?")
_ATOM: Final = re.compile(r"[a-z][\w@]*")
_BYTES: Final = re.compile(r"[\d,\s]*")
_OCTAL: Final = re.compile(r"[0-7]{1,3}")
_WIDE: Final = re.compile(r"x\{([0-9a-fA-F]+)\}")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "s": " ", "d": "\x7f"}


class Unparsable(ValueError):
    """A text is not an Erlang term."""


def parsed(text: str) -> object:
    """Return the term that a text holds. Raises Unparsable if the text is not exactly one term."""
    reader = _Reader(text)
    term = reader.term()
    reader.skip_space()
    if reader.at != len(text):
        raise Unparsable(f"{text[reader.at : reader.at + 20]!r} follows the term")
    return term


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def skip_space(self) -> None:
        match = _SPACE.match(self._text, self.at)
        assert match is not None
        self.at = match.end()

    def term(self) -> object:
        self.skip_space()
        for opening, read in (("[", self._list), ("{", self._tuple), ("<<", self._binary), ('"', self._string)):
            if self._takes(opening):
                return read()
        return self._atom_or_number()

    def _list(self) -> list[object]:
        return self._items("]")

    def _tuple(self) -> tuple[object, ...]:
        return tuple(self._items("}"))

    def _items(self, closing: str) -> list[object]:
        items: list[object] = []
        self.skip_space()
        if self._takes(closing):
            return items
        while True:
            items.append(self.term())
            self.skip_space()
            if self._takes(closing):
                return items
            self._demand(",")

    def _binary(self) -> str | bytes:
        # `<<"text">>` holds one byte for each character; `<<"text"/utf8>>` is text.
        self.skip_space()
        if self._takes('"'):
            text = self._string()
            is_text = self._takes("/utf8")
            self._demand(">>")
            return text if is_text else _text_or_bytes(text.encode("latin-1", "replace"))
        match = _BYTES.match(self._text, self.at)
        assert match is not None
        self.at = match.end()
        self._demand(">>")
        numbers = [int(number) for number in match.group().split(",") if number.strip()]
        if any(number > 255 for number in numbers):
            raise Unparsable(f"<<{match.group()}>> is not a binary: each number must be at most 255")
        return _text_or_bytes(bytes(numbers))

    def _string(self) -> str:
        characters: list[str] = []
        while not self._takes('"'):
            character = self._next()
            characters.append(self._escaped() if character == "\\" else character)
        return "".join(characters)

    def _escaped(self) -> str:
        for pattern, base in ((_WIDE, 16), (_OCTAL, 8)):
            match = pattern.match(self._text, self.at)
            if match is not None:
                self.at = match.end()
                return chr(int(match.group(match.lastindex or 0), base))
        character = self._next()
        return _ESCAPED.get(character, character)

    def _atom_or_number(self) -> object:
        match = _NUMBER.match(self._text, self.at)
        if match is not None:
            self.at = match.end()
            return float(match.group()) if match.group(1) else int(match.group())
        match = _ATOM.match(self._text, self.at)
        if match is None:
            raise Unparsable(f"expected a term, found {self._text[self.at : self.at + 20]!r}")
        self.at = match.end()
        return {"true": True, "false": False, "undefined": None}.get(match.group(), match.group())

    def _next(self) -> str:
        if self.at >= len(self._text):
            raise Unparsable("the text ends inside a term")
        self.at += 1
        return self._text[self.at - 1]

    def _takes(self, text: str) -> bool:
        is_next = self._text.startswith(text, self.at)
        self.at += len(text) * is_next
        return is_next

    def _demand(self, text: str) -> None:
        if not self._takes(text):
            raise Unparsable(f"expected {text!r}, found {self._text[self.at : self.at + 20]!r}")


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
