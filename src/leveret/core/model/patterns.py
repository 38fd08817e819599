"""The regular expressions of policies and permissions, matched in bounded time.

RabbitMQ's engine gives up at a match limit. Python's has none, and a repeat of repeats such as `^(a+)+$` can occupy it
for hours. So `re` matches only patterns with few choices. For all others leveret computes, for each part of the
pattern, at which positions of the text it can end, as a set of bits. No position is tried twice, so the time is at most
that of multiplying the length of the pattern by the square of the text's.

Such sets cannot express what depends on how a part has matched: back-references, conditions, atomic groups, possessive
repeats. If a pattern combines them with many choices, it is refused as invalid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, reduce
from importlib import import_module
from operator import or_
from typing import Final, Protocol, TypeAlias, cast

# The positions of a text as bits.
Positions: TypeAlias = int
# One set of positions for each start.
Rows: TypeAlias = list[Positions]
# What a part of a pattern does: from positions that were reached before it to those that are reached after it.
Part: TypeAlias = Callable[[str, Rows], Rows]
# A parsed pattern: pairs of an operation and its argument.
Tree: TypeAlias = Iterable[tuple[object, object]]

# Two repeats beside each other take at most the cube of 255 steps; names are no longer.
_CHOICES_MAX: Final = 2
# Python's own parser and compiler of patterns.
_parser: Final = import_module("re._parser")
_compiler: Final = import_module("re._compiler")
_REPEATS: Final = (_parser.MAX_REPEAT, _parser.MIN_REPEAT)
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


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Return the compiled pattern. Raises re.error if it is invalid, or cannot be matched in bounded time."""
    try:
        expression = re.compile(pattern)
        tree = _parser.parse(pattern)
        if _choices(tree) <= _CHOICES_MAX:
            return expression
        return _Walk(_sequence(tree, expression.flags))
    except RecursionError:
        raise re.error("regular expression is too complicated", pattern, len(pattern)) from None
    except OverflowError:
        raise re.error("number too big in {} quantifier", pattern, len(pattern)) from None
    except _UnboundedError as error:
        raise re.error(f"{error} beside many repeats has no time limit", pattern, len(pattern)) from None


def is_found(pattern: str, text: str) -> bool:
    """Return whether the pattern is found anywhere in the text."""
    return compiled(pattern).search(text) is not None


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
        return self._part(text, [everywhere])[0] or None


def _choices(tree: Tree) -> int:
    """Return how many repeats and branches stand beside each other; a choice within a repeat counts as too many."""
    count = 0
    for operation, argument in tree:
        if operation in _REPEATS or operation is _parser.POSSESSIVE_REPEAT:
            least, most, items = cast("tuple[int, int, Tree]", argument)
            within = _choices(items)
            count += _CHOICES_MAX + 1 if within and most > 1 else within + (least != most)
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

    def after(text: str, rows: Rows) -> Rows:
        for part in parts:
            rows = part(text, rows)
        return rows

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
        return _repeat(_sequence(items, flags), least, most)
    if operation in _ASSERTIONS:
        direction, items = cast("tuple[int, Tree]", argument)
        return _assertion(_sequence(items, flags), is_behind=direction < 0, is_negated=operation is _parser.ASSERT_NOT)
    return _leaf(operation, argument, flags)


def _leaf(operation: object, argument: object, flags: int) -> Part:
    """Return a part that is one character, or one place such as the beginning of the text."""
    tree = _parser.SubPattern(_parser.State(), [(operation, argument)])
    match = _compiler.compile(tree, flags).match
    width = 0 if operation is _parser.AT else 1

    def after(text: str, rows: Rows) -> Rows:
        matching = sum(1 << at for at in range(len(text) + 1) if match(text, at) is not None)
        return [(row & matching) << width for row in rows]

    return after


def _branch(branches: list[Part]) -> Part:
    def after(text: str, rows: Rows) -> Rows:
        return [reduce(or_, ends) for ends in zip(*(branch(text, rows) for branch in branches), strict=True)]

    return after


def _repeat(part: Part, least: int, most: int) -> Part:
    def after(text: str, rows: Rows) -> Rows:
        once = part(text, _nowhere_else(text))
        # No part goes backwards, so after as many repeats as there are positions nothing changes any more.
        settled = len(text) + 2
        rows = _joined(rows, _power(once, min(least, settled)))
        if most == least:
            return rows
        if most is _parser.MAXREPEAT or most - least >= settled:
            return _joined(rows, _closure(once))
        return _joined(rows, _power([ends | 1 << at for at, ends in enumerate(once)], most - least))

    return after


def _assertion(part: Part, *, is_behind: bool, is_negated: bool) -> Part:
    def after(text: str, rows: Rows) -> Rows:
        ends = part(text, _nowhere_else(text))
        holding = reduce(or_, ends) if is_behind else sum(1 << at for at, row in enumerate(ends) if row)
        return [row & ~holding if is_negated else row & holding for row in rows]

    return after


def _nowhere_else(text: str) -> Rows:
    """Return the rows of a part that matches nothing: each position leads to itself."""
    return [1 << at for at in range(len(text) + 1)]


def _joined(rows: Rows, relation: Rows) -> Rows:
    """Return where the rows lead if the relation follows them."""
    return [reduce(or_, (relation[at] for at in _members(row)), 0) for row in rows]


def _power(relation: Rows, times: int) -> Rows:
    """Return where a relation leads if it is followed that many times."""
    result = [1 << at for at in range(len(relation))]
    while times:
        if times & 1:
            result = _joined(result, relation)
        relation, times = _joined(relation, relation), times >> 1
    return result


def _closure(relation: Rows) -> Rows:
    """Return where a relation leads if it is followed any number of times."""
    result = [1 << at for at in range(len(relation))]
    for at in reversed(range(len(relation))):
        further = relation[at] & ~(1 << at)
        while further:
            end = (further & -further).bit_length() - 1
            result[at] |= result[end]
            further &= ~result[end]
    return result


def _members(positions: Positions) -> Iterator[int]:
    while positions:
        lowest = positions & -positions
        yield lowest.bit_length() - 1
        positions ^= lowest
