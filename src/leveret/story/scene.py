"""The scene of a failure: what the facts until then show of messages, consumers and clients.

`diagnosis` looks at it. It holds facts and counts, and no words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from leveret.story.clients import Clients
from leveret.story.deletions import Deletions
from leveret.story.facts import Fact
from leveret.story.lives import CopyLife, MessageLife
from leveret.story.words import AGAIN, UNACKED
from leveret.trace import events
from leveret.trace.events import as_python, eta_of

# A virtual host and a queue.
Place = tuple[str, str]
# What shows that a client goes on after an error.
_ACTS: Final = frozenset(
    {events.PUBLISHED, events.CONSUME, events.QUEUE_DECLARE, events.BIND, *events.DELIVERIES, *events.SETTLING}
)
# The most values that a look into bodies compares, and how deep it goes.
_VALUES_MAX: Final = 20_000
_DEEPEST: Final = 8


@dataclass(slots=True)
class Subscription:
    """A consumer of a queue, and the messages that it got."""

    place: Place
    conn: int
    chan: object
    tag: object
    prefetch: int
    has_acks: bool
    fact: Fact
    is_over: bool = False
    messages: dict[int, None] = field(default_factory=dict)


class Unsettled(NamedTuple):
    """A delivery that its client did not settle."""

    delivery: Fact
    copy: CopyLife[Fact]
    message: int


class Scene:
    """What the facts of one broker show, taken in order, until now: by default, until the last of them."""

    def __init__(self, facts: Iterable[Fact], now: int | None = None) -> None:
        self.clients: Final = Clients()
        self.deletions: Final = Deletions(self.clients)
        self.lives: Final[dict[int, MessageLife[Fact]]] = {}
        self.consumers: Final[list[Subscription]] = []
        # Those of each connection, and the latest by connection, channel and tag.
        self._of_client: Final[dict[object, list[Subscription]]] = {}
        self._by_tag: Final[dict[tuple[object, object, object], Subscription]] = {}
        self.declared: Final[dict[Place, Fact]] = {}
        # The connections that declared each queue; None is the test.
        self.declarers: Final[dict[Place, dict[object, None]]] = {}
        self.bindings: Final[list[Fact]] = []
        # The errors that were sent to clients, each with how many facts came before it.
        self.refusals: Final[list[tuple[Fact, int]]] = []
        self.faults: Final[list[Fact]] = []
        self.closes: Final[dict[int, Fact]] = {}
        # How many facts came before the last act of each connection.
        self.acted: Final[dict[int | None, int]] = {}
        self.now: int | None = None
        for index, fact in enumerate(facts):
            self._take(fact, index)
        self.now = now or self.now

    def _take(self, fact: Fact, index: int) -> None:
        kind, conn = fact.kind, cast("int | None", fact.get("conn"))
        self.now = fact.at or self.now
        self.clients.take(fact)
        self.deletions.take(fact)
        if kind in _ACTS:
            self.acted[conn] = index
        if kind in events.ABOUT_MESSAGES:
            self._lived(fact)
        elif kind == events.QUEUE_DECLARE:
            self.declared[place_of(fact)] = fact
            self.declarers.setdefault(place_of(fact), {})[conn] = None
        elif kind == events.CONSUME and conn is not None and conn > 0:
            prefetch, is_manual = cast("int", fact.get("prefetch_count") or 0), not fact.get("no_ack")
            chan, tag = fact.get("chan"), fact.get("consumer")
            one = Subscription(place_of(fact), conn, chan, tag, prefetch, is_manual, fact)
            self.consumers.append(one)
            self._of_client.setdefault(conn, []).append(one)
            self._by_tag[conn, chan, tag] = one
        elif kind in (events.CANCEL, events.CHAN_CLOSE, events.CONN_CLOSE):
            self._left(fact)
        elif kind == events.BIND:
            self.bindings.append(fact)
        elif kind == events.REFUSED:
            self.refusals.append((fact, index))
        elif kind == events.FAULT:
            self.faults.append(fact)

    def _lived(self, fact: Fact) -> None:
        number = cast("int", fact.get("msg"))
        life = self.lives.get(number)
        if life is None:
            life = self.lives[number] = MessageLife(number, str(fact.get("vhost") or "/"))
        life.live(fact)
        if fact.kind in events.DELIVERIES:
            consumer = self.consumer_of(fact)
            if consumer is not None:
                consumer.messages[number] = None

    def _left(self, fact: Fact) -> None:
        conn, chan, tag = fact.get("conn"), fact.get("chan"), fact.get("consumer")
        if fact.kind == events.CONN_CLOSE and isinstance(conn, int):
            self.closes[conn], chan = fact, None
        for one in self._of_client.get(conn, ()):
            if chan in (None, one.chan) and tag in (None, one.tag):
                one.is_over = True

    def consumer_of(self, delivery: Fact) -> Subscription | None:
        """Return the consumer that got a delivery; None for one of the test, or of basic.get."""
        return self._by_tag.get((delivery.get("conn"), delivery.get("chan"), delivery.get("consumer")))

    def copies(self) -> Iterator[tuple[MessageLife[Fact], CopyLife[Fact]]]:
        """Yield each copy with its message."""
        for life in self.lives.values():
            for copy in life.copies.values():
                yield life, copy

    def waiting(self) -> dict[Place, list[int]]:
        """Return the messages that are ready in each queue."""
        found: dict[Place, list[int]] = {}
        for life, copy in self.copies():
            if copy.is_ready:
                found.setdefault((copy.vhost, copy.queue), []).append(life.number)
        return found

    def unsettled(self) -> list[Unsettled]:
        """Return the deliveries that clients hold, or held until they left, but for tasks that wait for their time."""
        found = []
        for life, copy in self.copies():
            is_held = copy.state == UNACKED or (
                copy.state == AGAIN and copy.facts[-1].get("reason") == "channel_closed"
            )
            if is_held and copy.deliveries and is_client(copy.deliveries[-1].get("conn")) and not _is_for_later(life):
                found.append(Unsettled(copy.deliveries[-1], copy, life.number))
        return found

    def publisher(self, message: int) -> str | None:
        """Return the name of the client that published a message; None if its publish is unknown."""
        published = self.lives[message].published if message in self.lives else None
        return None if published is None else self.clients.name(published.get("conn"))

    def argument(self, place: Place, name: str) -> object:
        """Return an argument with which a queue was declared."""
        declared = self.declared.get(place)
        arguments = None if declared is None else as_python(declared.get("arguments"))
        return arguments.get(name) if isinstance(arguments, dict) else None

    def saying(self, values: list[object]) -> dict[int, list[int]]:
        """Return the messages whose bodies hold each of these values, by the place of the value among them."""
        found: dict[int, list[int]] = {}
        for number, life in self.lives.items():
            if life.published is not None:
                said = list(_said(body_of(life.published)))
                for at, value in enumerate(values):
                    if any(type(one) is type(value) and one == value for one in said):
                        found.setdefault(at, []).append(number)
        return found


def _is_for_later(life: MessageLife[Fact]) -> bool:
    """Return whether a worker of Celery or dramatiq holds a message until it is due."""
    if life.published is None:
        return False
    headers = as_python(property_of(life.published, "headers"))
    if isinstance(headers, dict) and eta_of(headers) is not None:
        return True
    try:
        body = json.loads(body_of(life.published))
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and "actor_name" in body and "eta" in (body.get("options") or ())


def is_client(conn: object) -> bool:
    """Return whether a connection is one of a client, and not of the test."""
    return isinstance(conn, int) and conn > 0


def place_of(fact: Fact) -> Place:
    """Return the queue that a fact is about."""
    return str(fact.get("vhost") or "/"), str(fact.get("queue"))


def property_of(published: Fact, name: str) -> object:
    """Return a property of a published message."""
    message = published.get("message")
    if message is not None:
        return getattr(cast("events.TracedMessage", message).properties, name, None)
    properties = published.get("properties")
    value = published.get(name)
    return properties.get(name) if value is None and isinstance(properties, dict) else value


def body_of(published: Fact) -> bytes:
    """Return the body of a published message, as far as it is recorded."""
    message = published.get("message")
    body = published.get("body") if message is None else cast("events.TracedMessage", message).body
    return body if isinstance(body, bytes) else str(body or "").encode("utf-8", "replace")


def missing_values(left: object, right: object) -> list[object]:
    """Return the values that one side of a failed comparison has and the other has not.

    A number alone is a count more often than a value of a message, so it does not count.
    """
    own, other = list(_leaves(left, 0)), list(_leaves(right, 0))
    missing = [*_without(other, own), *_without(own, other)]
    if _collection(left) is None and _collection(right) is None:
        missing = [value for value in missing if isinstance(value, str | bytes)]
    return [value for value in missing if value is not None and not isinstance(value, bool) and value not in ("", b"")]


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


def _said(body: bytes) -> Iterator[object]:
    """Yield what a body holds: itself as bytes and text, and the values in its JSON."""
    yield body
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return
    yield text
    try:
        yield from _leaves(json.loads(text), 0)
    except (ValueError, RecursionError):
        return
