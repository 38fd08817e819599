"""From the events of a broker to a lock: what clients sent, received, settled and declared.

What the test itself publishes stands for a publisher elsewhere. Its message counts once a consumer has acknowledged it,
because a test also sends what a consumer has to reject. A client whose name begins with "test" is the test as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, cast

from leveret.engine.harness import Harness
from leveret.trace import events
from leveret.trace.events import Event, as_python, printable
from leveret.trace.redaction import REDACTED, Redaction
from leveret.trace.shapes import OF_BROKER, add_message, client_pattern, key_pattern, may_list, message_name, safe_key
from pytest_leveret.contract.lock import (
    ANY_VALUE,
    FURTHER_KEYS,
    HEADERS_EXCHANGES,
    Declared,
    Lock,
    LockedBinding,
    LockedConsumer,
    LockedMessage,
    MessageKey,
    json_text,
)

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.trace.events import TracedMessage

# The queues by which Celery monitors its workers, whether or not a test is about that.
_MONITORING_QUEUES: Final = re.compile(r"celeryev\..*|.*\.pidbox")
_SECRETS: Final = Redaction()
# Headers that Celery writes for itself, and that are as its release has them.
_CELERYS: Final = frozenset(
    {
        *("argsrepr", "eta", "expires", "group", "group_index", "id", "ignore_result", "kwargsrepr", "lang", "origin"),
        *(
            "parent_id",
            "replaced_task_nesting",
            "retries",
            "root_id",
            "shadow",
            "stamped_headers",
            "stamps",
            "timelimit",
        ),
    }
)
# How a consumer settles a message, by the kind and the reason of what follows.
_SETTLED: Final[dict[tuple[str, object], str]] = {
    (events.ACKED, None): "acked",
    (events.ACKED, "no_ack"): "no_ack",
    **{(kind, "rejected"): "rejected" for kind in events.ENDS},
    **{(kind, reason): "requeued" for kind in events.REQUEUES for reason in ("nacked", "rejected", "recovered")},
}
_ACCEPTED: Final = ("acked", "no_ack")
# The events by which clients declare what there is.
DECLARING: Final = (events.EXCHANGE_DECLARE, events.QUEUE_DECLARE, events.BIND, events.UNBIND)


@dataclass(slots=True)
class _Sent:
    """A message that was published."""

    key: MessageKey
    body: bytes
    properties: Mapping[str, object]
    # Whether its shape is in the lock.
    is_counted: bool = False


Into = TypeVar("Into")


class EventReader(Generic[Into]):
    """Reads the events of one broker once, and knows the names of its clients."""

    # What takes the events of a kind.
    TAKERS: ClassVar[Mapping[str, Callable[[Any, Event, Any], None]]]

    def __init__(self, broker: Broker) -> None:
        self._harness: Final = Harness(broker)
        # How many events were read.
        self._read_count = 0
        self._clients: Final[dict[int, str]] = {}

    def read(self, into: Into) -> bool:
        """Add what has happened since the last call. Return whether it is all that has."""
        self._harness.sync()
        new, self._read_count, is_whole = self._harness.events_after(self._read_count)
        for raw in new:
            kind = cast("str", raw[0])
            take = self.TAKERS.get(kind)
            if take is not None:
                take(self, Event(raw), into)
            elif kind == events.CONN_OPEN:
                self._connected(Event(raw))
        return is_whole

    def _client(self, number: int | None) -> str | None:
        """Return the name of a client; None for the test itself."""
        return None if number is None else self._clients.get(number)

    def _connected(self, event: Event) -> None:
        name = client_pattern(event.client)
        if event.conn is not None and name is not None:
            self._clients[event.conn] = name
        elif event.conn is not None:
            self._clients.pop(event.conn, None)


class Observer(EventReader[Lock]):
    """Adds what the clients of a broker do to a lock."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._sent: Final[dict[int, _Sent]] = {}
        # The queue and the client of the latest delivery, by copy.
        self._held: Final[dict[int, tuple[str, str]]] = {}
        # The headers exchanges, by virtual host and name.
        self._by_headers: Final[set[tuple[str, object]]] = set()

    def _published(self, event: Event, lock: Lock) -> None:
        message = event.message
        if is_of_monitoring(message.exchange, message.routing_key):
            return
        properties = own_properties(message)
        exchange, routing_key = name_pattern(message.exchange), name_pattern(message.routing_key)
        headers = headers_sent(properties.get("headers"), message.routing_keys[1:])
        key = MessageKey(event.vhost, exchange, routing_key, message_name(message.body, properties), headers)
        sent = self._sent[message.id] = _Sent(key, message.body, properties)
        publisher = self._client(event.conn)
        if publisher is not None:
            self._count(sent, lock)
            lock.messages[key].publishers.add(publisher)

    def _count(self, sent: _Sent, lock: Lock) -> None:
        """Add the shape of a message, once."""
        if not sent.is_counted:
            sent.is_counted = True
            message = lock.messages.setdefault(sent.key, LockedMessage())
            add_message(message.shape, sent.body, sent.properties)

    def _delivered(self, event: Event, lock: Lock) -> None:
        client, copy = self._client(event.conn), cast("int", event.copy)
        self._held.pop(copy, None)
        if client is None or event.message.id not in self._sent:
            return
        self._held[copy] = (name_pattern(str(event.queue)), client)

    def _settled(self, event: Event, lock: Lock) -> None:
        word = _SETTLED.get((event.kind, event.get("reason")))
        held = self._held.get(event.copy) if word is not None and event.copy is not None else None
        sent = self._sent.get(event.message.id)
        if word is None or held is None or sent is None:
            return
        if word in _ACCEPTED:
            self._count(sent, lock)
        message = lock.messages.setdefault(sent.key, LockedMessage())
        message.consumers.setdefault(held, LockedConsumer(*held)).settled.add(word)

    def _declared(self, event: Event, lock: Lock) -> None:
        place = (event.vhost, event.get("exchange"))
        if event.kind == events.EXCHANGE_DECLARE and "headers" in (event.type, *_plain(event.arguments).values()):
            self._by_headers.add(place)
        # What a message meets behind its exchange, and what headers exchanges ask for, counts even if the test declares
        # it: the exchange and the key of a message do not say it.
        is_on_the_way = event.get("destination_kind") == "exchange" or "alternate-exchange" in _plain(event.arguments)
        is_by_headers = place in self._by_headers or place[1] in HEADERS_EXCHANGES
        is_gone = event.kind == events.UNBIND
        if is_on_the_way or is_by_headers or is_gone or self._client(event.conn) is not None:
            add_declared(event, lock)

    TAKERS: ClassVar[Mapping[str, Callable[[Any, Event, Any], None]]] = {
        events.PUBLISHED: _published,
        **dict.fromkeys(events.DELIVERIES, _delivered),
        **dict.fromkeys((kind for kind, _ in _SETTLED), _settled),
        **dict.fromkeys(DECLARING, _declared),
    }


def add_declared(event: Event, lock: Lock) -> None:
    """Add the exchange, the queue or the binding that a client has declared, or take out the binding that has gone."""
    if event.kind == events.EXCHANGE_DECLARE and not is_of_monitoring(event.exchange):
        exchange = lock.exchanges.setdefault((event.vhost, name_pattern(event.exchange)), Declared())
        exchange.types.add(event.type)
        exchange.arguments.add(_arguments(event.arguments))
    elif event.kind == events.QUEUE_DECLARE and not is_of_monitoring(str(event.queue)):
        queue = lock.queues.setdefault((event.vhost, name_pattern(str(event.queue))), Declared())
        queue.arguments.add(_arguments(event.arguments))
    elif event.kind in (events.BIND, events.UNBIND) and not is_of_monitoring(event.exchange, event.destination):
        source, destination, key = map(name_pattern, (event.exchange, event.destination, event.routing_key))
        asked = {
            name: ANY_VALUE if value is None else REDACTED if _SECRETS.hides(name) else _argument(value)
            for name, value in _plain(event.arguments).items()
        }
        arguments = json_text(asked or None)
        binding = LockedBinding(event.vhost, source, event.destination_kind, destination, key, arguments)
        if event.kind == events.BIND:
            lock.bindings.add(binding)
        elif (source, destination, key) == (event.exchange, event.destination, event.routing_key):
            # A binding with a mark in a name stands for several, of which others may remain.
            lock.bindings.discard(binding)


def is_of_monitoring(*names: str) -> bool:
    """Return whether one of these exchanges, queues or routing keys is one by which Celery monitors its workers."""
    return any(name in events.CELERY_EXCHANGES or _MONITORING_QUEUES.fullmatch(name) for name in names)


def name_pattern(name: str) -> str:
    """Return the name of an exchange or a queue, or a routing key, with marks in place of generated parts."""
    return key_pattern(printable(name))


def own_properties(message: TracedMessage) -> dict[str, object]:
    """Return the properties of a message without the headers that the broker and Celery have added."""
    properties = message.properties.to_python()
    headers = properties.get("headers")
    if isinstance(headers, Mapping):
        own = own_headers(headers)
        properties["headers"] = {name: value for name, value in headers.items() if name in own}
    return properties


def own_headers(names: Collection[str]) -> list[str]:
    """Return the names of headers without those that the broker and Celery have added."""
    others = _CELERYS if "task" in names and "id" in names else ()
    return [name for name in names if name not in others and not OF_BROKER.fullmatch(name)]


def headers_sent(headers: object, further_keys: Collection[str]) -> str:
    """Return what a broker routes a message by beside its key, as JSON. Of values it has what a shape has: words."""
    own = cast("Mapping[str, object]", headers or {})
    if not own and not further_keys:
        return "{}"
    texts = tuple([(name, value if isinstance(value, str | bool) else REDACTED) for name, value in own.items()])
    return _headers_text(texts, tuple(further_keys))


@lru_cache(1024)
def _headers_text(headers: tuple[tuple[str, str | bool], ...], further_keys: tuple[str, ...]) -> str:
    shown: dict[str, object] = {
        safe_key(name): value if isinstance(value, bool) or may_list(name, value) else REDACTED
        for name, value in headers
        if name != FURTHER_KEYS
    }
    if further_keys:
        shown[FURTHER_KEYS] = sorted(map(name_pattern, further_keys))
    return json_text(shown)


def _plain(arguments: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", as_python(arguments) or {})


def _arguments(arguments: object) -> tuple[tuple[str, Any], ...]:
    """Return the arguments of a declaration, without the type that a queue has by default."""
    plain = _plain(arguments)
    given = {name: value for name, value in plain.items() if (name, value) != ("x-queue-type", "classic")}
    return tuple(sorted((printable(name), _argument(value)) for name, value in given.items()))


def _argument(value: object) -> str | int | float:
    return value if isinstance(value, int | float) else name_pattern(str(value))
