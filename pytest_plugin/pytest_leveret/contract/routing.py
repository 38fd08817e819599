"""What reaches whom: the exchanges, queues and bindings of locks on a node without sockets, which routes there.

Where the locks are silent, such as about a value that was redacted, about the type of an exchange, or about the queue
that a random exchange chooses, the node has a choice. It routes a message once for each way to choose: what every way
reaches is reached for certain, and what one of them reaches may be reached.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Final, NamedTuple, TypeVar

from leveret.core.compat import V4_3, Compat
from leveret.core.model.binding import Binding, Destination
from leveret.core.model.errors import AmqpError
from leveret.core.model.exchanges import exchange_class
from leveret.core.model.exchanges.exchange import Exchange, ExchangeDeclaration
from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.vhost import VirtualHost
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table
from leveret.trace.redaction import REDACTED
from leveret.trace.shapes import Shape, safe_key
from pytest_leveret.contract.comparing import LockChange
from pytest_leveret.contract.lock import (
    ANY_VALUE,
    FURTHER_KEYS,
    Arguments,
    Declared,
    Lock,
    LockedBinding,
    LockedMessage,
    MessageKey,
    leading_to_headers,
)
from pytest_leveret.contract.observing import own_headers

T = TypeVar("T")
# More ways than these are not gone through.
_WAYS_MAX: Final = 2000
# The types that an exchange may have that no lock declares.
_UNKNOWN: Final = ("direct", "fanout", "topic")
# The types that send a message to one of their destinations, by chance or by a hash that is RabbitMQ's own.
_BY_CHANCE: Final = frozenset({"x-consistent-hash", "x-modulus-hash", "x-local-random", "x-random"})
_KNOWN: Final = frozenset({*_UNKNOWN, "headers", "x-random", "x-recent-history"})
# A value that no binding asks for, and a header that a message lacks.
_OTHER: Final = "\0"
_ABSENT: Final = None
# What stands before the names of queues that no client may declare.
_OWN: Final = "\0"
# A type and arguments with which an exchange is declared; a queue has no type.
_Way = tuple[str, Arguments]


class Sent(NamedTuple):
    """A message of a lock."""

    key: MessageKey
    message: LockedMessage
    lock: Lock


class Reached(NamedTuple):
    """The queues that a message reaches for certain, and those that it may reach, with these among them."""

    certain: frozenset[str]
    possible: frozenset[str]
    # Those that it may reach once a queue has given it to its dead-letter exchange.
    dead: frozenset[str] = frozenset()


class _Choices:
    """The dice of the node, which fall in every way, one after the other."""

    def __init__(self) -> None:
        # Of each choice on the way: its number, and how many there are.
        self._way: Final[list[tuple[int, int]]] = []
        self._step = 0

    def choice(self, seq: Sequence[T], /) -> T:
        """Return one of several."""
        if self._step == len(self._way):
            self._way.append((0, len(seq)))
        self._step += 1
        return seq[self._way[self._step - 1][0]]

    def randbytes(self, n: int, /) -> bytes:
        """Return `n` bytes."""
        return bytes(n)

    def each(self) -> Iterator[None]:
        """Yield once for each way to choose."""
        self._way.clear()
        while True:
            self._step = 0
            yield
            while self._way and self._way[-1][0] + 1 == self._way[-1][1]:
                self._way.pop()
            if not self._way:
                return
            number, count = self._way.pop()
            self._way.append((number + 1, count))


class _OpenExchange(Exchange):
    """An exchange of one of several types."""

    __slots__ = ("_types",)

    type_name = "open"

    def __init__(self, wanted: ExchangeDeclaration, types: Sequence[str], choices: _Choices, compat: Compat) -> None:
        self._types = [
            exchange_class(name)(wanted._replace(type_name=name), dice=choices, compat=compat) for name in types
        ]
        super().__init__(wanted, dice=choices, compat=compat)

    def _add(self, binding: Binding) -> None:
        for each in self._types:
            each.bind(binding)

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the destinations by one of the types."""
        return self.dice.choice(self._types).route(message)


class Routing:
    """The topology of several locks, without the queues' bindings of all but one if that is given as `binding`."""

    def __init__(self, locks: Mapping[str, Lock], *, binding: Lock | None = None) -> None:
        # What one lock declares otherwise than another.
        self.refused: Final[list[LockChange]] = []
        self._choices: Final = _Choices()
        self._node: Final = Node(compat=V4_3, dice=self._choices)
        self._leading: Final = leading_to_headers(*locks.values())
        # By virtual host, the headers that bindings ask for, with the values that they ask for.
        self._asked: Final[dict[str, dict[str, list[object]]]] = {}
        self._known: Final[dict[tuple[int, MessageKey], Reached]] = {}
        self._own_leading: Final = {id(lock): leading_to_headers(lock) for lock in locks.values()}
        # By virtual host and queue, the dead-letter exchanges and their keys; None is the key of the message.
        self._dead_letters: Final = {
            place: {(str(each["x-dead-letter-exchange"]), each.get("x-dead-letter-routing-key")) for each in tables}
            for lock in locks.values()
            for place, declared in lock.queues.items()
            if (tables := [each for each in map(dict, declared.arguments) if "x-dead-letter-exchange" in each])
        }
        for place in sorted({place for lock in locks.values() for place in lock.exchanges}):
            self._declare("exchange", place, locks)
        for place in sorted({place for lock in locks.values() for place in lock.queues}):
            self._declare("queue", place, locks)
        messages = [each for lock in locks.values() for each in lock.messages.items()]
        for vhost, queue in sorted({(key.vhost, queue) for key, message in messages for queue, _ in message.consumers}):
            # The channel of a document may be an exchange.
            if queue:
                self._queue(self._node.add_vhost(vhost), queue)
        bindings = [(each, lock) for lock in locks.values() for each in lock.bindings]
        for each in sorted(
            {each for each, lock in bindings if each.kind == "exchange" or binding is None or lock is binding}
        ):
            self._bind(each)

    def queues_of(self, sent: Sent) -> Reached:
        """Return the queues that a message reaches."""
        place = (id(sent.lock), sent.key)
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = self._route(sent)
        return known

    def are_alike(self, sent: Sent, expected: Sent) -> bool | None:
        """Return whether two messages of one key are alike in the headers by which brokers route.

        None if the locks do not say it. What has no set of headers stands for all that its tests have sent.
        """
        if not self.is_by_headers(sent.key) or not expected.key.headers:
            return True
        mine, theirs = self._headers(sent), self._headers(expected)
        if any(not any(value in theirs[name] for value in mine[name]) for name in mine):
            return False
        return True if all(len(each) == 1 for each in (*mine.values(), *theirs.values())) else None

    def has_dead_letters(self, sent: Sent) -> bool:
        """Return whether a message may leave a queue by a dead-letter exchange."""
        return any((sent.key.vhost, queue) in self._dead_letters for queue in self.queues_of(sent).possible)

    def headers_asked(self, vhost: str) -> Collection[str]:
        """Return the names of the headers for which bindings ask."""
        return self._asked.get(vhost, {})

    def is_by_headers(self, key: MessageKey) -> bool:
        """Return whether a message may come to a headers exchange."""
        return key[:2] in self._leading

    def _route(self, sent: Sent) -> Reached:
        vhost = self._node.add_vhost(sent.key.vhost)
        exchange = vhost.exchanges.get(sent.key.exchange)
        if exchange is None:
            return Reached(frozenset(), frozenset())
        headers = self._headers(sent) if self.is_by_headers(sent.key) else {}
        further = json.loads(sent.key.headers).get(FURTHER_KEYS, ()) if sent.key.headers else ()
        keys = (sent.key.routing_key, *further)
        found = self._found(vhost, exchange, keys, headers)
        certain, possible = frozenset.intersection(*found), frozenset.union(*found)
        dead: set[str] = set()
        waiting = [*possible]
        while waiting:
            for name, key in self._dead_letters.get((vhost.name, waiting.pop()), ()):
                exchange = vhost.exchanges.get(name)
                ways = self._found(vhost, exchange, keys if key is None else (str(key),), headers) if exchange else []
                new = frozenset().union(*ways) - dead
                dead |= new
                waiting += new
        return Reached(certain, possible, frozenset(dead))

    def _found(
        self, vhost: VirtualHost, exchange: Exchange, keys: tuple[str, ...], headers: Mapping[str, Sequence[object]]
    ) -> list[frozenset[str]]:
        """Return the queues that a message reaches from an exchange, once for each way to choose."""
        keys = keys if exchange.name else tuple(map(_allowed, keys))
        found: list[frozenset[str]] = []
        for _ in self._choices.each():
            if len(found) == _WAYS_MAX:
                found += [frozenset(), frozenset(name.removeprefix(_OWN) for name in vhost.queues)]
                break
            chosen = {name: self._choices.choice(values) for name, values in headers.items()}
            table = {name: value for name, value in chosen.items() if value is not _ABSENT}
            properties = Properties.from_python({"headers": table} if table else {})
            message = Message(1, exchange.name, keys[0], properties, properties.encode(), b"", keys)
            found.append(frozenset(queue.name.removeprefix(_OWN) for queue in vhost.route(exchange, message)))
        return found

    def _headers(self, sent: Sent) -> dict[str, list[object]]:
        """Return the values that each header may have for which a binding asks; `_ABSENT` if it may be missing."""
        given = json.loads(sent.key.headers) if sent.key.headers else {}
        is_whole = bool(sent.key.headers) and sent.key[:2] in self._own_leading[id(sent.lock)]
        shape = None if is_whole else sent.message.shape.fields.get("headers", Shape())
        found = {}
        for name, asked in self._asked.get(sent.key.vhost, {}).items():
            any_value = [_OTHER, *asked]
            names = {*given} if shape is None else {*shape.fields}
            is_left_out = name not in own_headers((name, "id", *names)) or any("{" in each for each in names)
            if is_left_out or (shape is not None and not sent.message.shape.count):
                found[name] = [_ABSENT, *any_value]
            elif name in given:
                found[name] = any_value if given[name] == REDACTED else [given[name]]
            elif shape is None:
                found[name] = [_ABSENT]
            else:
                found[name] = _values(shape, safe_key(name), any_value, is_document=sent.lock.is_document)
        return found

    def _declare(self, kind: str, place: tuple[str, str], locks: Mapping[str, Lock]) -> None:
        """Declare an exchange or a queue as most locks do, and note what RabbitMQ refuses of the others."""
        vhost, name = self._node.add_vhost(place[0]), place[1]
        tables = {at: lock.exchanges if kind == "exchange" else lock.queues for at, lock in locks.items()}
        ways = {at: _ways(kind, table[place]) for at, table in tables.items() if place in table}
        counts = Counter(way for each in ways.values() for way in each)
        chosen = max(counts, key=lambda way: (counts[way], repr(way)), default=None)
        if chosen is None or self._refusal(vhost, kind, name, chosen) is not None:
            # No lock has its type, or another version of RabbitMQ has taken the declaration.
            (self._queue if kind == "queue" else self._exchange)(vhost, name)
            return
        first = next(at for at, each in ways.items() if chosen in each)
        for at, each in ways.items():
            refusals = [] if chosen in each else [self._refusal(vhost, kind, name, way) for way in each]
            # A name with a mark stands for several, and a document declares nothing.
            if refusals and all(refusals) and not is_generated(name) and not locks[at].is_document:
                text = f"{at} declares it otherwise than {first}"
                self.refused.append(LockChange(f"{kind} {name!r}", text, (f"RabbitMQ refuses that: {refusals[0]}",)))
        types = sorted({way[0] for way in counts})
        if kind == "exchange" and (len(types) > 1 or not _BY_CHANCE.isdisjoint(types)):
            self._open(vhost, name, types, vhost.exchanges[name].arguments)

    def _refusal(self, vhost: VirtualHost, kind: str, name: str, way: _Way) -> str | None:
        arguments = Table.from_python(dict(way[1]))
        try:
            if kind == "queue":
                vhost.declare_queue(_allowed(name), arguments=arguments)
            elif name not in vhost.exchanges or not name.startswith("amq."):
                vhost.declare_exchange(name, way[0], arguments=arguments)
        except AmqpError as error:
            return error.reply_text
        return None

    def _open(self, vhost: VirtualHost, name: str, types: Sequence[str], arguments: Table = Table.EMPTY) -> Exchange:
        plain = ["x-random" if each in _BY_CHANCE else each for each in types]
        known = [each for each in plain if each in _KNOWN] or _UNKNOWN
        wanted = ExchangeDeclaration(name, "", arguments=arguments)
        exchange = _OpenExchange(wanted, known, self._choices, self._node.compat)
        vhost.exchanges[name] = exchange
        return exchange

    def _exchange(self, vhost: VirtualHost, name: str) -> Exchange:
        """Return an exchange, whose type may be in no lock."""
        known = vhost.exchanges.get(name)
        types = (*_UNKNOWN, "headers") if (vhost.name, name) in self._leading else _UNKNOWN
        return self._open(vhost, name, types) if known is None else known

    def _queue(self, vhost: VirtualHost, name: str) -> StoredQueue:
        """Return a queue, with whatever arguments it is declared."""
        known = vhost.queues.get(_allowed(name))
        return vhost.declare_queue(_allowed(name)) if known is None else known

    def _bind(self, binding: LockedBinding) -> None:
        vhost = self._node.add_vhost(binding.vhost)
        arguments: dict[str, object] = json.loads(binding.arguments) if binding.arguments else {}
        for name, value in arguments.items():
            asked = self._asked.setdefault(binding.vhost, {}).setdefault(name, [])
            if value not in (ANY_VALUE, *asked):
                asked.append(value)
        table = Table.from_python({name: None if value == ANY_VALUE else value for name, value in arguments.items()})
        target = (self._queue if binding.kind == "queue" else self._exchange)(vhost, binding.destination)
        # What a binding of another version asks for is not known.
        with suppress(AmqpError):
            vhost.bind(self._exchange(vhost, binding.exchange), target, binding.routing_key, table)


def is_generated(name: str) -> bool:
    """Return whether the name of a queue or an exchange has a mark in place of a generated part."""
    return "{" in name or name == "amq.gen-*"


def _ways(kind: str, declared: Declared) -> list[_Way]:
    """Return the ways in which a lock declares an exchange or a queue. A document may not say the arguments."""
    types = sorted(declared.types) if kind == "exchange" else [""]
    return [*product(types, sorted(declared.arguments, key=repr) or [()])]


def _allowed(queue: str) -> str:
    """Return the name under which a queue is declared. RabbitMQ itself makes those that begin with "amq."."""
    return _OWN + queue if queue.startswith("amq.") else queue


def _values(shape: Shape, name: str, any_value: list[object], *, is_document: bool) -> list[object]:
    """Return the values that a header may have, by the shape of all headers of a kind of message."""
    field = shape.fields.get(name)
    if field is None:
        # A document allows what it does not mention.
        return [_ABSENT, *any_value] if is_document else [_ABSENT]
    is_listed = {*field.types} == {"string"} and bool(field.enumeration)
    values: list[object] = [*field.enumeration] if is_listed else any_value
    return [*values, _ABSENT] if shape.is_optional(name) else values
