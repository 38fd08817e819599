"""Every regular expression that comes from outside, matched in bounded time: RabbitMQ's own and those of tests.

RabbitMQ's engine gives up at a match limit. Python's has none, and a repeat of repeats such as `^(a+)+$` can occupy it
for hours. So `re` matches only patterns with few choices. For all others leveret computes, for each part of the
pattern, at which positions of the text it can end, as a set of bits. A repeat tries no position twice, so the time is
about that of multiplying the length of the pattern by the square of the text's. `Expression` also matches texts longer
than a name, such as the body of a message: there every choice is followed in sets, and only the repeat of a group has a
limit.

Such sets cannot express what depends on how a part has matched: back-references, conditions, atomic groups, possessive
repeats. If a pattern combines them with many choices, it is refused as invalid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from importlib import import_module
from itertools import takewhile
from operator import or_
from typing import Final, NamedTuple, Protocol, TypeAlias, cast

from leveret.core.model.operators.pcre import Translation, UnsupportedError

# The positions of a text as bits.
Positions: TypeAlias = int
# What a part of a pattern does: from positions that were reached before it to those that are reached after it.
Part: TypeAlias = Callable[[str, Positions], Positions]
# A parsed pattern: pairs of an operation and its argument.
Tree: TypeAlias = Iterable[tuple[object, object]]

# Names have at most 255 characters. Two repeats beside each other take at most the cube of that many steps.
_NAME_MAX: Final = 255
_CHOICES_MAX: Final = 2
# Each step of a group's repeat may reach only one position more.
_GROUP_TEXT_MAX: Final = 2048
# Python's own parser and compiler of patterns.
_parser: Final = import_module("re._parser")
_compiler: Final = import_module("re._compiler")
_REPEATS: Final = (_parser.MAX_REPEAT, _parser.MIN_REPEAT)
_CHARACTERS: Final = (_parser.LITERAL, _parser.NOT_LITERAL, _parser.ANY, _parser.IN)
_ASSERTIONS: Final = (_parser.ASSERT, _parser.ASSERT_NOT)
_UNBOUNDED: Final = {
    _parser.GROUPREF: "a back-reference",
    _parser.GROUPREF_EXISTS: "a condition",
    _parser.ATOMIC_GROUP: "an atomic group",
    _parser.POSSESSIVE_REPEAT: "a possessive repeat",
}


class Pattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str, /) -> object | None:
        """Return None if the pattern is found nowhere in the text."""


class NamePattern(NamedTuple):
    """A pattern of RabbitMQ's, for names as `octets` returns them."""

    # What each name begins with in which the pattern is found.
    beginning: str
    search: Callable[[str], object | None]


class TextTooLongError(ValueError):
    """A text that is too long to be matched with a pattern in bounded time."""


class Expression:
    """A regular expression from outside, for texts of any length."""

    def __init__(self, pattern: str) -> None:
        """Raises re.error if the pattern is invalid, or cannot be matched in bounded time."""
        self.pattern: Final = pattern
        self._of_names: Final = compiled(pattern)
        self._of_texts: Final = compiled(pattern, choices_max=0)

    def __repr__(self) -> str:
        return repr(re.compile(self.pattern))

    def require_any_length(self) -> None:
        """Raise TextTooLongError if there are texts that are too long for the pattern."""
        self.search(" " * (_GROUP_TEXT_MAX + 1))

    def search(self, text: str, /) -> object | None:
        """Return None if the pattern is found nowhere in the text. Raises TextTooLongError."""
        return (self._of_names if len(text) <= _NAME_MAX else self._of_texts).search(text)


def octets(text: str) -> str:
    """Return a text's UTF-8 bytes as characters."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


@lru_cache(maxsize=1024)
def name_pattern(pattern: str, options: str = "", *, is_pcre2: bool) -> NamePattern:
    """Return a pattern of RabbitMQ's, which may have options as in `(?i)`.

    Raises re.error if RabbitMQ refuses it, and UnsupportedError if leveret cannot match it.
    """
    words = Translation(octets(pattern), options, is_pcre2=is_pcre2).text()
    try:
        expression = compiled(words)
    except UnsupportedError:
        raise
    except re.error as error:
        raise UnsupportedError(f"leveret cannot match it: {error.msg}", pattern, 0) from None
    return NamePattern(_beginning(_parser.parse(words)), expression.search)


def _beginning(tree: Tree) -> str:
    items = iter(tree)
    if next(items, None) != (_parser.AT, _parser.AT_BEGINNING_STRING):
        return ""
    return "".join(chr(cast("int", code)) for _, code in takewhile(lambda item: item[0] is _parser.LITERAL, items))


@lru_cache(maxsize=256)
def compiled(pattern: str, flags: int = 0, *, choices_max: int = _CHOICES_MAX) -> Pattern:
    """Return the compiled pattern. Raises re.error if it is invalid, or cannot be matched in bounded time.

    `re` matches a pattern with so many choices, if the text is as short as a name.
    """
    try:
        expression = re.compile(pattern, flags)
        tree = _parser.parse(pattern, flags)
        if _choices(tree) <= choices_max:
            return expression
        return _Walk(_sequence(tree, expression.flags))
    except RecursionError:
        raise re.error("regular expression is too complicated", pattern, len(pattern)) from None
    except OverflowError:
        raise re.error("number too big in {} quantifier", pattern, len(pattern)) from None
    except _UnboundedError as error:
        raise UnsupportedError(f"{error} beside many repeats has no time limit", pattern, len(pattern)) from None


def is_too_long(pattern: str, bytes_max: int | None) -> bool:
    """Return whether a pattern has more bytes than a version allows, None for no limit."""
    return bytes_max is not None and len(pattern.encode("utf-8", "surrogatepass")) > bytes_max


class _UnboundedError(Exception):
    """A part of a pattern that cannot be matched in bounded time."""


class _Walk:
    """A pattern with many choices."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def search(self, text: str, /) -> object | None:
        """Return None if the pattern is found nowhere in the text."""
        everywhere = (1 << len(text) + 1) - 1
        return self._part(text, everywhere) or None


def _choices(tree: Tree) -> int:
    """Return how many repeats and branches stand beside each other; one within a repeat counts as too many."""
    count = 0
    for operation, argument in tree:
        if operation in _REPEATS or operation is _parser.POSSESSIVE_REPEAT:
            least, most, items = cast("tuple[int, int, Tree]", argument)
            within = _choices(items)
            count += _CHOICES_MAX + 1 if within and most > 1 else within + ((least, most) != (1, 1))
        elif operation is _parser.BRANCH:
            _, branches = cast("tuple[object, list[Tree]]", argument)
            count += 1 + sum(map(_choices, branches))
        elif operation is _parser.GROUPREF_EXISTS:
            _, yes, no = cast("tuple[object, Tree, Tree | None]", argument)
            count += 1 + _choices(yes) + _choices(no or ())
        elif operation is _parser.SUBPATTERN or operation in _ASSERTIONS:
            *_, items = cast("tuple[object, Tree]", argument)
            count += _choices(items)
        elif operation is _parser.ATOMIC_GROUP:
            count += _choices(cast("Tree", argument))
    return count


def _sequence(tree: Tree, flags: int) -> Part:
    parts = [_part(operation, argument, flags) for operation, argument in tree]

    def after(text: str, reached: Positions) -> Positions:
        for part in parts:
            reached = part(text, reached)
        return reached

    return after


def _part(operation: object, argument: object, flags: int) -> Part:
    if operation in _UNBOUNDED:
        raise _UnboundedError(_UNBOUNDED[operation])
    if operation is _parser.SUBPATTERN:
        _, added, removed, items = cast("tuple[object, int, int, Tree]", argument)
        return _sequence(items, _compiler._combine_flags(flags, added, removed))
    if operation is _parser.BRANCH:
        _, branches = cast("tuple[object, list[Tree]]", argument)
        return _branch([_sequence(branch, flags) for branch in branches])
    if operation in _REPEATS:
        least, most, items = cast("tuple[int, int, Tree]", argument)
        repeated = list(items)
        if len(repeated) == 1 and repeated[0][0] in _CHARACTERS:
            return _run(_matching(*repeated[0], flags), least, most)
        return _repeat(_sequence(items, flags), least, most)
    if operation in _ASSERTIONS:
        direction, items = cast("tuple[int, Tree]", argument)
        return _assertion(_sequence(items, flags), is_behind=direction < 0, is_negated=operation is _parser.ASSERT_NOT)
    # One character, or one place such as the beginning of the text.
    matching = _matching(operation, argument, flags)
    width = 0 if operation is _parser.AT else 1

    return lambda text, reached: (reached & matching(text)) << width


def _matching(operation: object, argument: object, flags: int) -> Callable[[str], Positions]:
    """Return what says at which positions of a text one character, or one place, matches."""
    tree = _parser.SubPattern(_parser.State(), [(operation, argument)])
    match = _compiler.compile(tree, flags).match

    def places(text: str) -> Positions:
        if operation is _parser.AT:
            marks = ["1" if match(text, at) is not None else "0" for at in range(len(text), -1, -1)]
            return int("".join(marks), 2)
        bits = {ord(character): "1" if match(character) is not None else "0" for character in dict.fromkeys(text)}
        return int("0" + text[::-1].translate(bits), 2)

    return places


def _run(matching: Callable[[str], Positions], least: int, most: int) -> Part:
    """Return a part that repeats one character."""

    def after(text: str, reached: Positions) -> Positions:
        places, end = matching(text), len(text) + 1
        first, last = min(least, end), min(most, end)
        reached = (reached & _runs(places, first)) << first
        if last > places.bit_length():
            # The carry of the addition goes through a run of matching positions (MatchStar of parallel bit streams).
            return (((reached & places) + places) ^ places) | reached
        further = 0
        while further < last - first:
            step = min(further + 1, last - first - further)
            reached |= (reached & _runs(places, step)) << step
            further += step
        return reached

    return after


def _runs(places: Positions, length: int) -> Positions:
    """Return where so many matching positions in a row begin; everywhere, if that is none."""
    if not length:
        return -1
    width = 1
    while width < length:
        step = min(width, length - width)
        places &= places >> step
        width += step
    return places


def _branch(branches: list[Part]) -> Part:
    return lambda text, reached: reduce(or_, [branch(text, reached) for branch in branches])


def _repeat(part: Part, least: int, most: int) -> Part:
    def after(text: str, reached: Positions) -> Positions:
        _refuse_long(text)
        for _ in range(least):
            before, reached = reached, part(text, reached)
            if reached == before:
                # No part goes backwards, so nothing changes any more.
                break
        new = reached
        for _ in range(most - least):
            # Where the repeat has been before, fewer repeats have led to all that is further on.
            new = part(text, new) & ~reached
            if not new:
                break
            reached |= new
        return reached

    return after


def _assertion(part: Part, *, is_behind: bool, is_negated: bool) -> Part:
    def after(text: str, reached: Positions) -> Positions:
        _refuse_long(text)
        if is_behind:
            holding = part(text, (1 << len(text) + 1) - 1)
        else:
            holding = sum(1 << at for at in range(len(text) + 1) if reached >> at & 1 and part(text, 1 << at))
        return reached & ~holding if is_negated else reached & holding

    return after


def _refuse_long(text: str) -> None:
    """Raise TextTooLongError for a text in which a part would be tried at too many positions, one by one."""
    if len(text) > _GROUP_TEXT_MAX:
        raise TextTooLongError(
            f"a text of {len(text)} characters is too long for a pattern that repeats a group or looks around; "
            f"such a pattern can be matched with at most {_GROUP_TEXT_MAX}"
        )
