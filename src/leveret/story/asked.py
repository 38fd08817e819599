"""What a failed test asked for: the messages, values, counts and queues in which its failure may have a cause.

The failure of an assertion or a wait of leveret's names messages and queues. A plain comparison has values that the
test expected and lacks, and no other value says what it waited for. A test that asks for nothing of the kind has no
cause here, whatever else is wrong with its broker.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from leveret.story.entities import MessageLife
from leveret.trace.caller import Caller
from leveret.trace.events import as_python

# The most values that a look into bodies compares, and how deep it goes.
_VALUES_MAX: Final = 20_000
_DEEPEST: Final = 8
# The words of a text that is no JSON: how much of it is read, and how short they may be.
_WORDS: Final = re.compile(r"[\s:;,=|]+")
_TEXT_MAX: Final = 200
_WORD_MIN: Final = 3
# The name by which a test looks at all queues of a broker.
QUEUES: Final = "queues"


class TaskDeath(NamedTuple):
    """What ended a thread or a task: what it was, its error, and the line that raised it."""

    what: str
    name: str | None
    error: str
    line: Caller | None
    # How many of the broker's facts came before; None if that is unknown.
    place: int | None = None
    # Whether it was at work for a client of AMQP.
    is_client: bool = True
    # What was logged with it.
    text: str = ""


class Caught(NamedTuple):
    """An error that the code under test has caught and logged."""

    error: str
    line: Caller | None
    place: int
    # What was logged: it may name the message by its id.
    text: str = ""


class Raised(NamedTuple):
    """An error that failed a test, or from which that error was raised."""

    text: str
    # What a client says by it of a message that it published: the kind of an event; "" if it says nothing of the kind.
    answer: str = ""
    # The exchanges, routing keys and bodies of such messages, if the error has them.
    messages: Sequence[tuple[str, str, bytes]] = ()


@dataclass(slots=True)
class Asked:
    """What a test that failed shows of itself."""

    # The messages and queues that an assertion of leveret's is about, or at which a comparison looked.
    messages: Sequence[int] = ()
    queues: Sequence[str] = ()
    # The values that a comparison expected and lacks, those that it has more often, and those in another order.
    missing: Sequence[object] = ()
    repeated: Sequence[object] = ()
    reordered: Sequence[object] = ()
    # The values in whose place it has others, and the keys of these: they are missed if no client got their messages.
    replaced: Sequence[object] = ()
    # Those of the missing values that it has, but not often enough; and those that it has and did not expect.
    fewer: Sequence[object] = ()
    extra: Sequence[object] = ()
    # The key that a lookup missed, if that is an id by which messages are matched.
    correlation: object = None
    # How many things it expected, and how many there were; how much, and how much there was.
    count: tuple[int, int] | None = None
    total: tuple[int, int] | None = None
    # The same for the keys of a dictionary of counts, and the keys whose values differ.
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # All pairs of numbers that it compared: an expected one, and the one that there was.
    amounts: Sequence[tuple[int, int]] = ()
    keys: frozenset[str] = frozenset()
    # The strings in the code that fills what the test compared: names of queues among others.
    sources: frozenset[str] = frozenset()
    # The names in the comparison: they may be those of clients. What is no comparison was empty, or false.
    names: frozenset[str] = frozenset()
    is_falsy: bool = False
    # The errors that failed it, and whether time ran out.
    raised: Sequence[Raised] = ()
    is_timeout: bool = False
    # An assertion asked for a message published with this key, if it named one, and saw none.
    is_unpublished: bool = False
    routing_key: str | None = None
    # Whether a wait of leveret's timed out: it asks for what is not settled.
    is_wait: bool = False
    # Whether strict checks failed the test: it asks for whatever they found.
    is_check: bool = False
    deaths: Sequence[TaskDeath] = ()
    caught: Sequence[Caught] = field(default_factory=list)


class Comparison(NamedTuple):
    """The two sides of a comparison that failed: the expected one and the one that the test has."""

    expected: object
    found: object
    # An operator: "==", "in".
    operator: str = "=="

    def ask(self, asked: Asked) -> None:
        """Note what it asked for."""
        expected, found = self.expected, self.found
        if self.operator == "in":
            asked.missing = [*_wanted(_leaves(expected, 0))]
        elif self.operator != "==":
            return
        elif type(expected) is int and type(found) is int:
            asked.total = (expected, found)
            asked.amounts = [asked.total]
        else:
            self._ask_collections(asked)

    def _ask_collections(self, asked: Asked) -> None:
        pairs = [*self._pairs(asked)]
        asked.amounts = [*asked.counts.values()]
        if type(self.expected) in (list, tuple) and type(self.expected) is type(self.found):
            zipped = zip(cast("Any", self.expected), cast("Any", self.found), strict=False)
            asked.amounts = [(one, other) for one, other in zipped if type(one) is type(other) is int]
        wanted, there = ([leaf for pair in pairs for leaf in _leaves(pair[side], 0)] for side in (0, 1))
        missing, extra = _without(wanted, there), _without(there, wanted)
        asked.replaced = [*_wanted([*missing, *_differing_keys(self.expected, self.found)])]
        if len(pairs) > 1:
            # What one key lacks, another may have.
            both = [(list(_leaves(one, 0)), list(_leaves(other, 0))) for one, other in pairs]
            missing = [value for one, other in both if len(other) < len(one) for value in _without(one, other)]
            extra = [value for one, other in both if len(other) > len(one) for value in _without(other, one)]
        elif missing and len(there) >= len(wanted):
            # Nothing is lacking: what the test has instead is another value, or the same in another form.
            return
        forms = {_form(value) for value in extra} if len(pairs) == 1 else set()
        missing = [value for value in missing if _form(value) not in forms]
        is_collection = _collection(self.expected) is not None
        if not is_collection and self.found is not None:
            missing = [value for value in missing if type(value) in (str, bytes)]
        if type(self.expected) is dict and type(self.found) is dict and len(self.found) < len(self.expected):
            # A key may be what a message says: the id of an order.
            missing += [one for one in self.expected if type(one) is str and one not in self.found]
        asked.missing = [*_wanted(missing)]
        asked.fewer = [*_wanted(one for one in missing if one in there)]
        if is_collection and not missing:
            # What stands under a key of its own is no repetition.
            is_keyed = type(self.found) is dict and len(pairs) == 1
            asked.repeated = [] if is_keyed else [*_wanted(one for one in extra if one in wanted)]
            asked.reordered = [] if extra or len(pairs) > 1 else [*_wanted(wanted)]
        asked.extra = [*_wanted(extra)] if is_collection else []
        asked.is_falsy = self.found is None
        kinds = _collection(self.expected), _collection(self.found)
        if None not in kinds:
            count = (kinds[0].__len__(self.expected), kinds[1].__len__(self.found))
            # Of what came more than once, a key has only one value.
            asked.count = count if kinds[1] is not dict or count[1] < count[0] else None

    def _pairs(self, asked: Asked) -> Iterator[tuple[object, object]]:
        """Yield what to compare: all of both sides, or of two dictionaries the values of each key."""
        expected, found = self.expected, self.found
        if type(expected) is not dict or type(found) is not dict or expected.keys() != found.keys():
            yield expected, found
            return
        both = {key: (value, found[key]) for key, value in expected.items() if type(key) is str}
        if len(both) < len(expected):
            yield expected, found
            return
        asked.keys = frozenset(key for key, pair in both.items() if _form(pair[0]) != _form(pair[1]))
        asked.counts = {key: pair for key, pair in both.items() if all(type(one) is int for one in pair)}
        yield from both.values()


def values_of(*bodies: object) -> Iterator[object]:
    """Yield the values in what an assertion expected of bodies."""
    return _wanted(leaf for body in bodies for leaf in _leaves(body, 0))


def _differing_keys(expected: object, found: object) -> Iterator[object]:
    """Yield the innermost keys under which two dictionaries have different values."""
    if type(expected) is dict and type(found) is dict:
        for key in expected.keys() & found.keys():
            inner = [*_differing_keys(expected[key], found[key])]
            is_other = _form(expected[key]) != _form(found[key])
            yield from inner or ([key] if is_other and type(key) is str else [])


def _form(value: object) -> str:
    """Return a value without its type and case: a test may have what it expects in another form."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text.strip().casefold()


def _wanted(values: Sequence[object] | Iterator[object]) -> Iterator[object]:
    """Yield what a message may hold and little else does."""
    return (value for value in values if value is not None and not isinstance(value, bool) and value not in ("", b""))


# How to go through the collections, and what a value is. No code of the user's runs: it could raise, or not end.
_COLLECTIONS: Final[dict[type, Callable[[Any], Iterable[object]]]] = {
    dict: dict.values,
    **{kind: kind.__iter__ for kind in (list, tuple, set, frozenset)},
}
_VALUES: Final = (str, bytes, bool, int, float)


def _without(values: list[object], others: list[object]) -> list[object]:
    left = Counter((type(one), one) for one in others)
    missing = []
    for value in values:
        key = (type(value), value)
        if left[key]:
            left[key] -= 1
        else:
            missing.append(value)
    return missing


def _leaves(value: object, depth: int) -> Iterator[object]:
    kind = _collection(value)
    if kind is not None and depth < _DEEPEST and kind.__len__(value) <= _VALUES_MAX:
        for one in _COLLECTIONS[kind](value):
            yield from _leaves(one, depth + 1)
    elif type(value) in _VALUES:
        yield value


def _collection(value: object) -> Any:
    """Return the type of collection that a value is, of Python's own; None if it is none."""
    return next((kind for kind in type(value).__mro__ if kind in _COLLECTIONS), None)


def said_by(life: MessageLife) -> Iterator[object]:
    """Yield what a message holds: its body as bytes and text, the values in its JSON, its headers, and its deaths."""
    body = life.message.body
    yield body
    yield from _said_by_body(body)
    letters = [copy.facts[0].message for copy in life.copies.values() if copy.source_number is not None]
    for message in (life.message, *letters[-1:]):
        yield from _leaves(as_python(message.properties.headers), 0)


def _said_by_body(body: bytes) -> Iterator[object]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return
    yield text
    try:
        yield from _leaves(json.loads(text), 0)
    except (ValueError, RecursionError):
        yield from (word for word in _WORDS.split(text[:_TEXT_MAX]) if len(word) >= _WORD_MIN)
