"""The matcher: which message a test means, in the keywords that every assertion, wait and fault shares.

`exchange=`, `routing_key=` (a topic pattern when it holds `*` or `#`), `body=` (bytes or text), `json=`, `headers=`
(those given must be there; others may be), `redelivered=`, and every basic property by its name. An expected value is
compared by its own `__eq__`, so `unittest.mock.ANY` and its like work everywhere; a compiled regular expression is
searched for.

A criterion can say why a message is not the one, and how far off it is, so that a failure can show the nearest. It
knows views of messages and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Final, NamedTuple

from leveret.core.model.exchanges.topic import topic_matches
from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.errors import expected
from leveret.observe.message_view import MessageView
from leveret.trace.events import preview

_MISSING: Final = object()
# What is given by somebody who expects it to be called.
_NO_VALUES: Final = (FunctionType, BuiltinFunctionType, MethodType, type)
# Longer values are not compared letter by letter.
_LETTER_LIMIT: Final = 200


class Criterion(NamedTuple):
    """One keyword and the value it asks for; as it stands, equality with the attribute of that name."""

    name: str
    expected: object

    def matches(self, message: MessageView) -> bool:
        """Whether the message has what is asked for."""
        return is_equal(self.expected, getattr(message, self.name))

    def why_not(self, message: MessageView) -> str:
        """What the message has instead, for one that does not match."""
        return f"{self.name} {getattr(message, self.name)!r} is not {self.expected!r}"

    def distance(self, message: MessageView) -> float:
        """How far off a message is that does not match: near 0 for a slip of the pen, 1 for something else."""
        return value_distance(self.expected, getattr(message, self.name))


class RoutingKeyCriterion(Criterion):
    """The routing key: a topic pattern, a word for word key, or an object that knows."""

    __slots__ = ()

    def matches(self, message: MessageView) -> bool:
        """Whether the key is the one, or fits the pattern."""
        expected = self.expected
        if isinstance(expected, str) and ("*" in expected or "#" in expected):
            return expected == message.routing_key or topic_matches(expected, message.routing_key)
        return is_equal(expected, message.routing_key)

    def why_not(self, message: MessageView) -> str:
        """The key it has, beside the one asked for."""
        return f"routing_key {message.routing_key!r} does not match {self.expected!r}"


class BodyCriterion(Criterion):
    """The body: bytes, or text that is compared as UTF-8."""

    __slots__ = ()

    def matches(self, message: MessageView) -> bool:
        """Whether the body is the one."""
        expected = self.expected
        if isinstance(expected, str):
            return expected.encode("utf-8", "surrogateescape") == message.body
        if isinstance(expected, re.Pattern) and isinstance(expected.pattern, str):
            return expected.search(message.body.decode("utf-8", "replace")) is not None
        return is_equal(expected, message.body)

    def why_not(self, message: MessageView) -> str:
        """The bodies, side by side."""
        expected = self.expected.encode() if isinstance(self.expected, str) else self.expected
        shown = preview(expected) if isinstance(expected, bytes) else repr(expected)
        return f"body {preview(message.body)} is not {shown}"

    def distance(self, message: MessageView) -> float:
        """How far off the body is."""
        expected = self.expected.encode() if isinstance(self.expected, str) else self.expected
        return value_distance(expected, message.body)


class JsonCriterion(Criterion):
    """The body as JSON."""

    __slots__ = ()

    def matches(self, message: MessageView) -> bool:
        """Whether the body is JSON and equal to what is asked for."""
        found = _parse(message.body)
        return found is not _MISSING and bool(self.expected == found)

    def why_not(self, message: MessageView) -> str:
        """The first places where the two differ."""
        found = _parse(message.body)
        if found is _MISSING:
            return f"body {preview(message.body)} is not JSON"
        differences = list(_differences("json", self.expected, found))
        more = f" (and {len(differences) - 3} more)" if len(differences) > 3 else ""
        return "; ".join(differences[:3]) + more

    def distance(self, message: MessageView) -> float:
        """How much of the value differs."""
        found = _parse(message.body)
        if found is _MISSING:
            return 1.0
        return min(1.0, sum(1 for _ in _differences("json", self.expected, found)) / (_leaf_count(self.expected) + 1))


class HeadersCriterion(Criterion):
    """Some of the headers; the message may have others."""

    __slots__ = ()

    def matches(self, message: MessageView) -> bool:
        """Whether every header asked for is there and equal."""
        if not isinstance(self.expected, Mapping):
            return is_equal(self.expected, message.headers)
        return not any(True for _ in self._missed(self.expected, message))

    def why_not(self, message: MessageView) -> str:
        """Which headers are missing or different."""
        if not isinstance(self.expected, Mapping):
            return f"headers {message.headers!r} are not {self.expected!r}"
        return "; ".join(self._missed(self.expected, message))

    def distance(self, message: MessageView) -> float:
        """The part of the headers that is missed."""
        if not isinstance(self.expected, Mapping):
            return 1.0
        return sum(1 for _ in self._missed(self.expected, message)) / len(self.expected)

    @staticmethod
    def _missed(expected: Mapping[str, object], message: MessageView) -> Iterable[str]:
        headers = message.headers
        for name, value in expected.items():
            if name not in headers:
                yield f"header {name!r} is missing"
            elif not is_equal(value, headers[name]):
                yield f"header {name!r} is {headers[name]!r}, not {value!r}"


_CRITERIA: Final[dict[str, type[Criterion]]] = {
    "exchange": Criterion,
    "routing_key": RoutingKeyCriterion,
    "body": BodyCriterion,
    "json": JsonCriterion,
    "headers": HeadersCriterion,
    "redelivered": Criterion,
    **{name: Criterion for name in PROPERTY_NAMES if name != "headers"},
}

KEYWORDS: Final = tuple(_CRITERIA)


class Matcher:
    """Which messages a test means: those that meet every criterion."""

    __slots__ = ("criteria",)

    def __init__(self, criteria: Mapping[str, object], *, also_known: Sequence[str] = ()) -> None:
        """Compile keywords; raises TypeError for one that does not exist, with the nearest that does.

        A function is refused too: nothing is equal to it, and nobody calls it.

        `also_known` are the other keywords of the call, so that a misspelt `times` is not taken for a `type`.
        """
        for keyword in criteria:
            if keyword not in _CRITERIA:
                hint = expected(keyword, (*KEYWORDS, *also_known))
                raise TypeError(f"unknown keyword {keyword!r} to match messages by{hint}")
            if isinstance(criteria[keyword], _NO_VALUES):
                raise TypeError(_no_value(keyword, criteria[keyword]))
        self.criteria: Final = tuple(_CRITERIA[name](name, expected) for name, expected in criteria.items())

    def matches(self, message: MessageView) -> bool:
        """Whether this is such a message."""
        return all(criterion.matches(message) for criterion in self.criteria)

    def why_not(self, message: MessageView) -> list[str]:
        """A sentence for each criterion that the message misses; empty when it matches."""
        return [criterion.why_not(message) for criterion in self.criteria if not criterion.matches(message)]

    def distance(self, message: MessageView) -> float:
        """How far off the message is: 0 when it matches, about 1 more for every criterion it misses wholly."""
        return sum(criterion.distance(message) for criterion in self.criteria if not criterion.matches(message))

    def __repr__(self) -> str:
        return ", ".join(f"{criterion.name}={criterion.expected!r}" for criterion in self.criteria)


def _no_value(keyword: str, value: object) -> str:
    what = getattr(value, "__qualname__", repr(value))
    return (
        f"{keyword}={what} is nothing a message can be equal to, and is not called: give the value itself, or an "
        f"object whose == decides (unittest.mock.ANY), or look at the {keyword} of what is returned"
    )


def is_equal(expected: object, actual: object) -> bool:
    """Whether a value is the one expected: a compiled expression is searched for, anything else asked for equality."""
    if isinstance(expected, re.Pattern) and isinstance(actual, str | bytes):
        return isinstance(expected.pattern, type(actual)) and expected.search(actual) is not None
    return bool(expected == actual)


def value_distance(expected: object, actual: object) -> float:
    """How far apart two values are that differ: above 0 for texts much alike, 1 for anything else."""
    if isinstance(expected, str) and isinstance(actual, str):
        return 1.0 - _likeness(expected, actual)
    if isinstance(expected, bytes) and isinstance(actual, bytes):
        return 1.0 - _likeness(expected.decode("latin-1"), actual.decode("latin-1"))
    return 1.0


def _likeness(one: str, other: str) -> float:
    # Never quite 1: they differ.
    if len(one) > _LETTER_LIMIT or len(other) > _LETTER_LIMIT:
        return 0.5 if one[:_LETTER_LIMIT] == other[:_LETTER_LIMIT] else 0.0
    return 0.9 * SequenceMatcher(None, one, other, autojunk=False).ratio()


def _parse(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return _MISSING


def _differences(path: str, expected: object, found: object) -> Iterable[str]:
    """One sentence for each place where two JSON values differ."""
    if expected == found:
        return
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in {**expected, **found}:
            place = f"{path}[{name!r}]"
            if name not in found:
                yield f"{place} is missing"
            elif name not in expected:
                yield f"{place} is {found[name]!r}, but was not expected"
            else:
                yield from _differences(place, expected[name], found[name])
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differences(f"{path}[{index}]", one, other)
    else:
        yield f"{path} is {found!r}, not {expected!r}"


def _leaf_count(value: object) -> int:
    if isinstance(value, dict):
        return sum(map(_leaf_count, value.values()))
    if isinstance(value, list):
        return sum(map(_leaf_count, value))
    return 1
