"""PCRE, the language of RabbitMQ's patterns, in the words of Python's `re`.

RabbitMQ gives the UTF-8 bytes of patterns and names to Erlang's `re`, without its option `unicode`. So each character
of a pattern is one byte, here a character of Latin-1. RabbitMQ 4.3 has PCRE2 10.47, where only ASCII has letters;
before, it is PCRE 8.45, with a table of the letters of Latin-1. What each takes is as seen on Erlang/OTP 29, 27 and 25.
leveret only asks whether a pattern matches at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

Octets: TypeAlias = frozenset[int]


class UnsupportedError(re.error):
    """A pattern that leveret cannot match, though RabbitMQ may."""


def _octets(holds: Callable[[str], bool]) -> Octets:
    return frozenset(octet for octet in range(256) if holds(chr(octet)))


_ALL: Final = _octets(lambda it: True)
_ASCII: Final = _octets(str.isascii)
_DIGITS: Final = _octets(lambda it: it in "0123456789")
_ALPHA: Final = _octets(str.isalpha)
_CONTROL: Final = _octets(lambda it: it < " " or "\x7f" <= it < "\xa0")
_GRAPH: Final = _ALL - _CONTROL - {0x20}
# By the names in `[[:name:]]`. PCRE2 knows only their part of ASCII.
_POSIX: Final = {
    "alpha": _ALPHA,
    "lower": _octets(str.islower),
    "upper": _octets(str.isupper),
    "alnum": _ALPHA | _DIGITS,
    "ascii": _ALL,
    "blank": _octets(lambda it: it in "\t "),
    "cntrl": _CONTROL,
    "digit": _DIGITS,
    "graph": _GRAPH,
    "print": _GRAPH | {0x20},
    "punct": _GRAPH - _ALPHA - _DIGITS,
    "space": _octets(lambda it: it in "\t\n\v\f\r "),
    "word": _ALPHA | _DIGITS | {0x5F},
    "xdigit": _octets(lambda it: it in "0123456789abcdefABCDEF"),
}
# Escapes for sets of bytes; with a capital letter, for all others.
_POSIX_ESCAPES: Final = {"d": "digit", "s": "space", "w": "word"}
_SETS: Final = {"h": _octets(lambda it: it in "\t \xa0"), "v": _octets(lambda it: it in "\n\v\f\r\x85")}
_CONTROLS: Final = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}
# Places, which no quantifier may follow.
_PLACES: Final = {
    **dict.fromkeys((r"\A", r"\G", "^"), r"\A"),
    **dict.fromkeys((r"\Z", "$"), "$"),
    r"\z": r"\Z",
    r"\b": "(?:(?<={word})(?!{word})|(?<!{word})(?={word}))",
    r"\B": "(?:(?<={word})(?={word})|(?<!{word})(?!{word}))",
}
_PLACES_IN_LINES: Final = {**_PLACES, "^": r"(?:\A|(?<=\n)(?!\Z))", "$": r"(?=\n|\Z)"}
# How these begin, go on after `|` and end. In Python all of a lookbehind has one length, in PCRE each alternative.
_LOOKBEHINDS: Final = {"(?<=": ("(?:(?<=", ")|(?<=", "))"), "(?<!": ("(?:(?<!", ")(?<!", "))")}
_COUNT_MAX: Final = 65535
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\E|(\\.)", re.DOTALL)
_NUMBER: Final = re.compile(r"x\{([0-9a-fA-F]+)\}|x(?!\{)([0-9a-fA-F]{0,2})|o\{([0-7]+)\}|([0-7]{1,3})")
_POSIX_CLASS: Final = re.compile(r"\[([:.=])(\^?)([^]\\]*)\1\]")


class _Group(NamedTuple):
    """An open group: where it begins in the translation, how it goes on and ends, and the options around it."""

    begins: int
    alternative: str
    end: str
    outer_options: str


class Translation:
    """The translation of one pattern of bytes, item by item."""

    def __init__(self, pattern: str, options: str, *, is_pcre2: bool) -> None:
        """Begin to read a pattern; `options` are letters as in `(?i)`."""
        self._pattern = _QUOTED.sub(_unquoted, pattern if is_pcre2 else pattern.partition("\0")[0])
        self._options = options
        self._is_pcre2 = is_pcre2
        self._at = 0
        self._out: list[str] = []
        # Where in `_out` the item begins that a quantifier would repeat.
        self._item: int | None = None
        self._open = [_Group(0, "|", "", "")]
        # The number of each group, by number and by name.
        self._groups: dict[str, int] = {}
        self._count = 0

    def text(self) -> str:
        """Return the pattern in the words of `re`.

        Raises re.error if PCRE refuses the pattern, and UnsupportedError if leveret cannot match it.
        """
        while self._at < len(self._pattern):
            for expression, handle in _ITEMS.get(self._pattern[self._at], ()):
                match = expression.match(self._pattern, self._at)
                if match is not None:
                    self._at = match.end()
                    handle(self, match)
                    break
            else:
                self._literal()
        if len(self._open) > 1:
            raise self._fault("missing )", "missing closing parenthesis")
        return "".join(self._out)

    def _fault(self, text: str, text_of_pcre2: str = "", *, earlier: int = 0) -> re.error:
        """Return PCRE's refusal of what was read last. Before PCRE2, it may name an earlier place."""
        if self._is_pcre2:
            return re.error(text_of_pcre2 or text, self._pattern, self._at)
        return re.error(text, self._pattern, self._at - earlier)

    def _refuse(self, match: re.Match[str]) -> None:
        raise UnsupportedError(f"leveret cannot match {match[0]}", self._pattern, match.start())

    def _add(self, text: str, *, is_place: bool = False) -> None:
        self._item = None if is_place else len(self._out)
        self._out.append(text)

    def _literal(self) -> None:
        char = self._pattern[self._at]
        self._at += 1
        if "x" in self._options and char in "\t\n\v\f\r #":
            if char == "#":
                self._at = (self._pattern + "\n").index("\n", self._at) + 1
        elif char == ".":
            self._add(self._class(_ALL if "s" in self._options else _ALL - {0x0A}))
        else:
            self._add(self._class({ord(char)}))

    def _place(self, match: re.Match[str]) -> None:
        text = (_PLACES_IN_LINES if "m" in self._options else _PLACES)[match[0]]
        self._add(text.replace("{word}", self._class(self._posix("word"))), is_place=True)

    def _capture(self, match: re.Match[str]) -> None:
        self._count += 1
        for name in (str(self._count), *filter(None, match.groups())):
            if name in self._groups:
                raise self._fault("two named subpatterns have the same name")
            self._groups[name] = self._count
        self._begin("(")

    def _begin(self, begin: str, alternative: str = "|", end: str = ")") -> None:
        self._open.append(_Group(len(self._out), alternative, end, self._options))
        self._add(begin, is_place=True)

    def _end(self, _: re.Match[str]) -> None:
        if len(self._open) == 1:
            raise self._fault("unmatched parentheses", "unmatched closing parenthesis", earlier=1)
        group = self._open.pop()
        self._item, self._options = group.begins, group.outer_options
        self._out.append(group.end)

    def _set_options(self, match: re.Match[str]) -> None:
        """Set options for the rest of this group, `(?i)`, or for one of their own, `(?i:`."""
        self._item = None
        if match[3] == ":":
            self._begin("(?:")
        self._options = "".join(it for it in self._options + match[1] if it not in (match[2] or ""))

    def _number(self, match: re.Match[str]) -> int:
        """Return the number of the group that is referred to."""
        name = next(filter(None, match.groups()))
        if name.startswith("-"):
            name = str(self._count + 1 + int(name))
        if name not in self._groups:
            if re.search(r"\((?!\?[^P<'])", self._pattern[self._at :]):
                raise UnsupportedError("leveret cannot match a reference to a later group", self._pattern, self._at)
            raise self._fault("reference to non-existent subpattern")
        return self._groups[name]

    def _refer(self, match: re.Match[str]) -> None:
        self._add(f"(?{'i' if 'i' in self._options else ''}:\\{self._number(match)})")

    def _refer_or_escape(self, match: re.Match[str]) -> None:
        if int(match[1]) <= max(self._count, 9 if self._is_pcre2 else 7):
            self._refer(match)
        else:
            # Octal digits.
            self._at = match.start() + 1
            self._escape()

    def _repeat(self, match: re.Match[str]) -> None:
        if self._item is None:
            raise self._fault("nothing to repeat", "quantifier does not follow a repeatable item", earlier=1)
        self._out[self._item] = f"(?:{self._out[self._item]}"
        self._out.append(f"){match[0]}")
        self._item = None

    def _repeat_counted(self, match: re.Match[str]) -> None:
        low, comma, high, mode = match.groups()
        is_old = low and match[0].isprintable() and " " not in match[0]
        if not (low or high) or (high and not comma) or not (self._is_pcre2 or is_old):
            self._at = match.start()
            self._literal()
            return
        self._at -= len(mode) + 1
        if max(int(low or 0), int(high or 0)) > _COUNT_MAX:
            raise self._fault("number too big in {} quantifier")
        if high and int(low or 0) > int(high):
            raise self._fault("numbers out of order in {} quantifier")
        self._at = match.end()
        self._repeat(match)
        self._out[-1] = f"){{{low or 0}{comma}{high}}}{mode}"

    def _escape(self) -> None:
        octets = self._escaped()
        self._add(self._class({octets} if isinstance(octets, int) else octets))

    def _escaped(self, *, is_in_class: bool = False) -> int | Octets:
        """Return the byte, or the set of bytes, of an escape whose backslash was read."""
        if self._at == len(self._pattern):
            raise self._fault("\\ at end of pattern")
        char = self._pattern[self._at]
        self._at += 1
        lower = char.lower()
        if lower in _POSIX_ESCAPES or lower in _SETS:
            octets = self._posix(_POSIX_ESCAPES[lower]) if lower in _POSIX_ESCAPES else _SETS[lower]
            return octets if char == lower else _ALL - octets
        if char in _CONTROLS:
            return _CONTROLS[char]
        if is_in_class and char == "b":
            return 0x08
        if not is_in_class and char in "NC":
            return _ALL - {0x0A} if char == "N" else _ALL
        if char == "c":
            letter, self._at = self._pattern[self._at : self._at + 1], self._at + 1
            if not " " <= letter <= "~":
                raise self._fault("\\c must be followed by an ASCII character")
            return ord(letter.upper()) ^ 0x40
        if lower == "p":
            raise UnsupportedError(f"leveret cannot match \\{char}", self._pattern, self._at)
        number = _NUMBER.match(self._pattern, self._at - 1)
        if number is not None:
            return self._numbered(number)
        # PCRE2 refuses all other letters and digits, PCRE these.
        if not (char.isascii() and char.isalnum()) or not (self._is_pcre2 or char in "LlNUuxo"):
            return ord(char)
        raise self._fault("unrecognized character follows \\")

    def _numbered(self, number: re.Match[str]) -> int:
        self._at = number.end()
        hexadecimal, octal = number[1] or number[2], number[3] or number[4]
        if self._is_pcre2 and not hexadecimal and not octal:
            raise self._fault("digits missing after \\x or in \\x{} or \\o{} or \\N{U+}")
        octet = int(octal, 8) if octal else int(hexadecimal or "0", 16)
        if octet not in _ALL:
            raise self._fault("character code point value in \\x{} or \\o{} is too large")
        return octet

    def _posix(self, name: str) -> Octets:
        """Return the bytes of a POSIX class in this version."""
        if "i" in self._options and name in ("lower", "upper"):
            name = "alpha"
        return _POSIX[name] & _ASCII if self._is_pcre2 else _POSIX[name]

    def _set(self, match: re.Match[str]) -> None:
        octets: set[int] = set()
        begins = self._at
        while self._at == begins or not self._pattern.startswith("]", self._at):
            first = self._member()
            is_range = self._pattern[self._at : self._at + 1] == "-" and self._pattern[self._at + 1 :][:1] not in "]"
            if isinstance(first, int):
                octets.update(range(first, self._end_of_range(first) + 1) if is_range else (first,))
            elif is_range and self._is_pcre2:
                raise self._fault("invalid range in character class")
            else:
                octets |= first
        self._at += 1
        self._add(self._class(octets, match[1]))

    def _end_of_range(self, first: int) -> int:
        self._at += 1
        last = self._member()
        if not isinstance(last, int):
            raise self._fault("invalid range in character class", earlier=1)
        if last < first:
            raise self._fault("range out of order in character class", earlier=1)
        return last

    def _member(self) -> int | Octets:
        """Return the next byte, or set of bytes, in a class."""
        if self._at >= len(self._pattern):
            raise self._fault("missing terminating ] for character class")
        named = _POSIX_CLASS.match(self._pattern, self._at)
        if named is not None:
            self._at = named.end()
            if named[3] not in _POSIX or named[1] != ":":
                raise self._fault("unknown POSIX class name", earlier=len(named[0]) - 2)
            return _ALL - self._posix(named[3]) if named[2] else self._posix(named[3])
        self._at += 1
        char = self._pattern[self._at - 1]
        return self._escaped(is_in_class=True) if char == "\\" else ord(char)

    def _class(self, octets: Octets | set[int], negation: str = "") -> str:
        """Return a set of bytes in the words of `re`."""
        if "i" in self._options:
            known = _ASCII if self._is_pcre2 else _ALL
            swapped = {ord(it) for it in map(str.swapcase, map(chr, octets & known)) if len(it) == 1}
            octets = octets | swapped & known
        if len(octets) == 1 and not negation:
            return re.escape(chr(*octets))
        text = ""
        for octet in sorted(octets):
            if octet - 1 not in octets:
                text += f"\\x{octet:02x}"
            elif octet + 1 not in octets:
                text += f"-\\x{octet:02x}"
        return f"[{negation}{text}]"


def _unquoted(match: re.Match[str]) -> str:
    """Return a quoted text as escapes, and any other escape as it is."""
    return match[2] or "".join(f"\\x{{{ord(char):x}}}" for char in match[1] or "")


_Handler: TypeAlias = Callable[[Translation, re.Match[str]], None]
# What to do with the next item, by its first character. The first that fits counts; all else is a literal.
_ITEMS: Final[dict[str, list[tuple[re.Pattern[str], _Handler]]]] = {
    first: [(re.compile(expression, re.ASCII), handle) for expression, handle in items]
    for first, items in {
        "(": (
            (r"\((?:\?P?<([A-Za-z_]\w*)>|\?'([A-Za-z_]\w*)'|(?![?*]))|\((?=\*\))", Translation._capture),
            (r"\(\?(?:>|<?[=!])", lambda it, match: it._begin(*_LOOKBEHINDS.get(match[0], (match[0],)))),
            (r"\(\?([imsx]*)(?:-([imsx]*))?([:)])", Translation._set_options),
            (
                r"\(\?\((?:(\d+)|<(\w+)>|'(\w+)'|(?!R|DEFINE)(\w+))\)",
                lambda it, match: it._begin(f"(?({it._number(match)})"),
            ),
            (r"\(\?P=(\w+)\)", Translation._refer),
            (r"\(\?#[^)]*\)", lambda it, match: None),
            # Verbs, subroutines, branch resets, callouts, other options and conditions.
            (r"\(\*\w*|\(\?\(?[^)]?", Translation._refuse),
        ),
        "\\": (
            (r"\\[AGzZbB]", Translation._place),
            (r"\\R", lambda it, match: it._add(r"(?>\r\n|[\n\x0b\f\r\x85])")),
            (r"\\g(-?\d+)|\\g\{(-?\d+)\}|\\[gk]\{(\w+)\}|\\k<(\w+)>|\\k'(\w+)'", Translation._refer),
            (r"\\([1-9]\d*)", Translation._refer_or_escape),
            # Graphemes, the beginning of the match, and subroutines.
            (r"\\[XKg]", Translation._refuse),
            (r"\\", lambda it, match: it._escape()),
        ),
        "[": (
            (r"\[\[:[<>]:\]\]|\[([:.=])[^]\\]*\1\]", Translation._refuse),
            (r"\[(\^?)", Translation._set),
        ),
        "{": ((r"\{[ \t]*(\d*)[ \t]*(,?)[ \t]*(\d*)[ \t]*\}([?+]?)", Translation._repeat_counted),),
        **dict.fromkeys("*+?", ((r"[*+?][?+]?", Translation._repeat),)),
        **dict.fromkeys("^$", ((r".", Translation._place),)),
        ")": ((r"\)", Translation._end),),
        "|": ((r"\|", lambda it, match: it._add(it._open[-1].alternative, is_place=True)),),
    }.items()
}
