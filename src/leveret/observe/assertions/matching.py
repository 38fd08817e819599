"""The matcher: it selects messages by the keywords that every assertion, wait and fault shares.

The keywords are `exchange=`, `routing_key=` (a topic pattern if it holds `*` or `#`), `body=` (bytes or text), `json=`,
`json_contains=` (the JSON may have further keys, also in nested objects), `headers=` (the message may have others too),
`redelivered=`, and every basic property by its name. The `__eq__` of the expected value decides, so
`unittest.mock.ANY` and similar objects work everywhere. A compiled regular expression matches if it is found anywhere
in the value.

A criterion explains why a message does not match and how far off it is, so that a failure can show the closest
messages. It depends on views of messages and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, ClassVar, Final, NamedTuple, cast

from leveret.core.model.exchanges.topic import topic_matches
from leveret.core.model.operators.patterns import Expression
from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.observe.calls.calls import shown
from leveret.observe.views.message_view import MessageView
from leveret.trace.events import preview
from leveret.wording import count_text, listed, safe_text

_MISSING: Final = object()
# Functions and classes: a caller who passes one expects leveret to call it, which it does not.
_NOT_COMPARABLE: Final = (FunctionType, BuiltinFunctionType, MethodType, type)
# Texts longer than this are compared by their beginning only.
_SIMILARITY_LIMIT: Final = 200
# How many differences of a JSON value, and how many keys of one difference, the text names.
_LISTED: Final = 3
# How far off a JSON value is at most, and what a further key counts beside one that is missing or different.
_LARGEST: Final = 0.95
_SURPLUS: Final = 0.25


class Criterion(NamedTuple):
    """One keyword and its expected value. By default the attribute of that name must equal the value."""

    name: str
    expected: object

    def matches(self, message: MessageView) -> bool:
        """Return whether the message meets this criterion."""
        return is_equal(self.expected, getattr(message, self.name))

    def found(self, message: MessageView) -> object:
        """Return what a message has instead."""
        return message.body if self.name.startswith("json") else getattr(message, self.name)

    def why_not(self, message: MessageView) -> str:
        """Return what a message has instead, if it does not match."""
        return instead_text(self.name.replace("_", " "), getattr(message, self.name), self.expected)

    def distance(self, message: MessageView) -> float:
        """Return how far off a message is that does not match: near 0 for a typo, 1 for something else."""
        return value_distance(self.expected, getattr(message, self.name))


class RoutingKeyCriterion(Criterion):
    """The routing key: a topic pattern, an exact key, or an object with its own `__eq__`."""

    __slots__ = ()

    def matches(self, message: MessageView) -> bool:
        """Return whether the key equals the expected one or fits the pattern."""
        return is_key(self.expected, message.routing_key)


class BodyCriterion(Criterion):
    """The body: bytes, or text, which is encoded as UTF-8."""

    __slots__ = ()

    def matches(self, message: MessageView) -> bool:
        """Return whether the body equals the expected one."""
        expected = self.expected
        if isinstance(expected, str):
            return expected.encode("utf-8", "surrogateescape") == message.body
        if isinstance(expected, re.Pattern | Expression) and isinstance(expected.pattern, str):
            return expected.search(message.body.decode("utf-8", "replace")) is not None
        return is_equal(expected, message.body)

    def why_not(self, message: MessageView) -> str:
        """Return the two bodies side by side."""
        expected = self.expected.encode() if isinstance(self.expected, str) else self.expected
        asked = preview(expected) if isinstance(expected, bytes) else shown(expected)
        return f"body {preview(message.body)} instead of {asked}"

    def distance(self, message: MessageView) -> float:
        """Return how far off the body is."""
        expected = self.expected.encode() if isinstance(self.expected, str) else self.expected
        return value_distance(expected, message.body)


class JsonCriterion(Criterion):
    """The body as JSON."""

    __slots__ = ()

    # Whether objects may have no further keys.
    is_exact: ClassVar = True

    def matches(self, message: MessageView) -> bool:
        """Return whether the body is JSON and differs nowhere."""
        actual = _parse(message.body)
        return actual is not _MISSING and not any(True for _ in self.differences(actual))

    def why_not(self, message: MessageView) -> str:
        """Return the first places where the two values differ."""
        actual = _parse(message.body)
        if actual is _MISSING:
            return f"body {preview(message.body)} is not JSON"
        differences = list(self.differences(actual))
        # The way out is only right if nothing else differs.
        if all(difference.is_surplus for difference in differences):
            differences[-1] = JsonDifference(f"{differences[-1].text} (json_contains= ignores further keys)")
        more = f" (and {len(differences) - _LISTED} more)" if len(differences) > _LISTED else ""
        return "; ".join(difference.text for difference in differences[:_LISTED]) + more

    def distance(self, message: MessageView) -> float:
        """Return the share of the value that differs; further keys count for less. Any JSON is nearer than none."""
        actual = _parse(message.body)
        if actual is _MISSING:
            return 1.0
        differences = list(self.differences(actual))
        surplus = sum(difference.weight for difference in differences if difference.is_surplus)
        differing = sum(difference.weight for difference in differences)
        return min(_LARGEST, differing / (_leaf_count(self.expected) + surplus))

    def differences(self, actual: object) -> Iterable[JsonDifference]:
        """Yield each place where the JSON of a message differs from what is expected."""
        return _differences("JSON", self.expected, actual, is_exact=self.is_exact)


class JsonContainsCriterion(JsonCriterion):
    """A part of the body as JSON: objects may have further keys, at every level. Lists have the expected length."""

    __slots__ = ()

    is_exact = False


class HeadersCriterion(Criterion):
    """Some of the headers. The message may have others."""

    __slots__ = ()

    def matches(self, message: MessageView) -> bool:
        """Return whether the message has every expected header with an equal value."""
        if not isinstance(self.expected, Mapping):
            return is_equal(self.expected, message.headers)
        return not any(True for _ in self._mismatches(self.expected, message))

    def why_not(self, message: MessageView) -> str:
        """Return the headers that are missing or different."""
        if not isinstance(self.expected, Mapping):
            return instead_text("headers", message.headers, self.expected)
        return "; ".join(self._mismatches(self.expected, message))

    def distance(self, message: MessageView) -> float:
        """Return the share of the expected headers that are missing or different."""
        if not isinstance(self.expected, Mapping):
            return 1.0
        return sum(1 for _ in self._mismatches(self.expected, message)) / len(self.expected)

    @staticmethod
    def _mismatches(expected: Mapping[str, object], message: MessageView) -> Iterable[str]:
        headers = message.headers
        for name, value in expected.items():
            if name not in headers:
                yield f"header {name!r} is missing"
            elif not is_equal(value, headers[name]):
                yield instead_text(f"header {name!r}", headers[name], value)


_CRITERIA: Final[dict[str, type[Criterion]]] = {
    "exchange": Criterion,
    "routing_key": RoutingKeyCriterion,
    "body": BodyCriterion,
    "json": JsonCriterion,
    "json_contains": JsonContainsCriterion,
    "headers": HeadersCriterion,
    "redelivered": Criterion,
    **{name: Criterion for name in PROPERTY_NAMES if name != "headers"},
}

KEYWORDS: Final = tuple(_CRITERIA)
# Python's own values, of which only some can equal a keyword. Any other object decides by its `__eq__`.
_PLAIN: Final = (str, bytes, bytearray, int, float, list, tuple, dict, set)
_KINDS: Final[dict[str, tuple[type | tuple[type, ...], str]]] = {
    **dict.fromkeys(("exchange", "routing_key", *PROPERTY_NAMES), (str, "text")),
    "body": ((str, bytes, bytearray), "bytes or text"),
    "json_contains": ((dict, list), "an object or a list; json= compares a whole value"),
    "headers": (Mapping, "a mapping of names to values"),
    "redelivered": (bool, "True or False"),
    "delivery_mode": (int, "a number"),
    "priority": (int, "a number"),
    "timestamp": ((int, float), "a time"),
}


class Matcher:
    """A set of criteria. A message matches if it meets all of them."""

    __slots__ = ("criteria",)

    def __init__(self, criteria: Mapping[str, object]) -> None:
        """Compile the keywords. Raises TypeError if a value is a function or a class: no message equals one."""
        for keyword in criteria:
            if isinstance(criteria[keyword], _NOT_COMPARABLE):
                raise TypeError(_not_comparable_text(keyword, criteria[keyword]))
            kinds, said = _KINDS.get(keyword, (_PLAIN, "comparable"))
            if isinstance(criteria[keyword], _PLAIN) and not isinstance(criteria[keyword], kinds):
                raise TypeError(f"{keyword}={safe_text(criteria[keyword])} never matches, because it is not {said}")
        self.criteria: Final = tuple(_CRITERIA[name](name, expected) for name, expected in criteria.items())

    def matches(self, message: MessageView) -> bool:
        """Return whether the message meets every criterion."""
        return all(criterion.matches(message) for criterion in self.criteria)

    def why_not(self, message: MessageView) -> list[str]:
        """Return a sentence for each criterion that the message fails; empty if it matches."""
        return [criterion.why_not(message) for criterion in self.criteria if not criterion.matches(message)]

    def distance(self, message: MessageView) -> float:
        """Return how far off the message is: 0 if it matches, up to 1 more for each criterion it fails."""
        return sum(criterion.distance(message) for criterion in self.criteria if not criterion.matches(message))

    def __repr__(self) -> str:
        return ", ".join(f"{criterion.name}={safe_text(criterion.expected)}" for criterion in self.criteria)


def _not_comparable_text(keyword: str, value: object) -> str:
    what = getattr(value, "__qualname__", None) or safe_text(value)
    return (
        f"{keyword}={what}: cannot compare a message with a function or a class; pass a value, pass an object with its "
        f"own __eq__ (unittest.mock.ANY), or check the {keyword} of the returned message"
    )


def is_equal(expected: object, actual: object) -> bool:
    """Return whether a value is as expected: equal, or, for a compiled regular expression, found in the value."""
    if isinstance(expected, re.Pattern | Expression) and isinstance(actual, str | bytes):
        return isinstance(expected.pattern, type(actual)) and expected.search(cast("Any", actual)) is not None
    return bool(expected == actual)


def is_key(expected: object, key: object) -> bool:
    """Return whether a routing key is as expected: equal, or of the topic pattern that a text with `*` or `#` is."""
    if isinstance(expected, str) and isinstance(key, str) and ("*" in expected or "#" in expected):
        return expected == key or topic_matches(expected, key)
    return is_equal(expected, key)


def instead_text(name: str, actual: object, expected: object) -> str:
    """Return what a message has beside what was expected: "routing key 'a' instead of 'b'"."""
    return f"{name} {shown(actual)} instead of {shown(expected)}"


def value_distance(expected: object, actual: object) -> float:
    """Return how far apart two different values are: just above 0 for similar texts, 1 for anything else."""
    if isinstance(expected, str) and isinstance(actual, str):
        return 1.0 - _similarity(expected, actual)
    if isinstance(expected, bytes) and isinstance(actual, bytes):
        return 1.0 - _similarity(expected.decode("latin-1"), actual.decode("latin-1"))
    return 1.0


def _similarity(text: str, other: str) -> float:
    # Below 1 even for the most similar texts, because they differ.
    if len(text) > _SIMILARITY_LIMIT or len(other) > _SIMILARITY_LIMIT:
        return 0.5 if text[:_SIMILARITY_LIMIT] == other[:_SIMILARITY_LIMIT] else 0.0
    return 0.9 * SequenceMatcher(None, text, other, autojunk=False).ratio()


def _parse(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _MISSING


class JsonDifference(NamedTuple):
    """A place where two JSON values differ: the sentence that says so, and how many values it stands for."""

    text: str
    weight: float = 1
    # Whether the message only has more than expected.
    is_surplus: bool = False


def _differences(path: str, expected: object, actual: object, *, is_exact: bool) -> Iterable[JsonDifference]:
    """Yield each place where two JSON values differ. If it is not exact, the found objects may have further keys."""
    if expected == actual:
        return
    if isinstance(expected, Mapping) and isinstance(actual, dict):
        missing = [name for name in expected if name not in actual]
        surplus = [name for name in actual if name not in expected] if is_exact else []
        if missing:
            yield JsonDifference(f"{path} has no {_names(missing)}", len(missing))
        for name, value in expected.items():
            if name in actual:
                yield from _differences(f"{path}[{name!r}]", value, actual[name], is_exact=is_exact)
        if surplus:
            yield JsonDifference(f"{path} also has {_names(surplus)}", len(surplus) * _SURPLUS, is_surplus=True)
    elif isinstance(expected, list) and isinstance(actual, list):
        for index, (wanted, item) in enumerate(zip(expected, actual, strict=False)):
            yield from _differences(f"{path}[{index}]", wanted, item, is_exact=is_exact)
        if len(expected) != len(actual):
            count = abs(len(expected) - len(actual))
            yield JsonDifference(f"{path} has {count_text(len(actual), 'item')} instead of {len(expected)}", count)
    else:
        yield JsonDifference(f"{path} is {shown(actual)} instead of {shown(expected)}")


def _names(names: Sequence[object]) -> str:
    texts = [shown(name) for name in names[:_LISTED]]
    if len(names) > _LISTED:
        texts.append(f"{len(names) - _LISTED} more")
    return listed(texts)


def _leaf_count(value: object) -> int:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    # An empty object or list is a value too.
    return sum(map(_leaf_count, values)) or 1
