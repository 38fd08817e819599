"""A node and its queues without a protocol: consumers are lists, messages are short byte strings.

Everything here is the real model. A list is enough for a subscriber.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from leveret.core.compat import Compat
from leveret.core.hooks import Hooks
from leveret.core.model.errors import AmqpError
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.node import Node
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.queue import Queue
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.vhost import Published, VirtualHost
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table
from leveret.trace.events import Event

SECOND = 1_000_000
MINUTE = 60 * SECOND


class Inbox(list[QueueEntry]):
    """A subscriber that keeps its deliveries and records cancellations."""

    is_limited = False

    def __init__(self) -> None:
        super().__init__()
        self.cancellations: list[str] = []

    def has_room_for(self, consumer: Consumer) -> bool:
        return True

    def hold_up(self, queue: StoredQueue) -> None:
        raise AssertionError("there is no limit")

    def deliver(self, consumer: Consumer, entry: QueueEntry) -> None:
        self.append(entry)

    def takes_runs(self, consumer: Consumer) -> bool:
        return False

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        self.cancellations.append(reason)

    @property
    def bodies(self) -> list[bytes]:
        return bodies(self)


class Peer:
    """A connection that records the notices it gets."""

    def __init__(self, number: int = 1, user: str = "guest", vhost_name: str = "/") -> None:
        self.number = number
        self.user = user
        self.vhost_name = vhost_name
        self.notices: list[str] = []

    def refuse(self, channel_number: int, error: AmqpError) -> None:
        self.notices.append(f"refused {error.reply_text}")

    def unblock(self) -> None:
        self.notices.append("unblocked")

    def shut_down(self, error: AmqpError) -> None:
        self.notices.append(f"shut down {error.reply_text}")


class World:
    """One node with its trace, and short methods for what tests do with it."""

    def __init__(self, version: str = "4.3", *, permit: Iterable[str] = ("transient_nonexcl_queues",)) -> None:
        self.trace: list[tuple[object, ...]] = []
        self.node = Node(
            compat=Compat.for_version(version),
            dice=random.Random(7),
            hooks=Hooks(self.trace.append),
            permit=frozenset(permit),
        )

    @property
    def vhost(self) -> VirtualHost:
        return self.node.vhosts["/"]

    def queue(self, name: str = "q", *, auto_delete: bool = False, **arguments: object) -> Queue:
        """Declare a durable queue; `max_length=3` stands for the argument x-max-length."""
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        return self.vhost.declare_queue(name, auto_delete=auto_delete, arguments=Table.from_python(named))

    def quorum(self, name: str = "q", **arguments: object) -> Queue:
        return self.queue(name, queue_type="quorum", **arguments)

    def message(self, body: bytes, key: str = "q", exchange: str = "", **properties: object) -> Message:
        headers = properties.get("headers")
        carbon = list(headers["CC"]) if isinstance(headers, dict) and "CC" in headers else []
        known = Properties.from_python(properties)
        return Message(self.node.new_message_id(), exchange, key, known, known.encode(), body, (key, *carbon))

    def publish(self, body: bytes, key: str = "q", exchange: str = "", **properties: object) -> Published:
        """Publish as a channel does, and do the work that follows."""
        published = self.vhost.publish(self.vhost.exchanges[exchange], self.message(body, key, exchange, **properties))
        self.node.run_work()
        return published

    def fill(self, queue: Queue, *wanted: bytes, **properties: object) -> None:
        for body in wanted:
            self.publish(body, queue.name, **properties)

    def bind(self, source: str, destination: str, key: str = "", arguments: dict[str, object] | None = None) -> None:
        where = self.vhost.queues.get(destination) or self.vhost.exchanges[destination]
        self.vhost.bind(self.vhost.exchanges[source], where, key, Table.from_python(arguments or {}))

    def elapse(self, ms: int) -> None:
        """Move the broker's clock on."""
        self.node.advance(self.node.now + ms * 1000, self.node.wall_now)

    def events(self, *kinds: str) -> list[Event]:
        return [Event(raw) for raw in self.trace if not kinds or raw[0] in kinds]

    def kinds_of(self, copy: int) -> list[str]:
        """Return the kinds of all events about one copy."""
        return [event.kind for event in self.events() if event.get("copy") == copy]


def consume(queue: Queue, inbox: Inbox | None = None, **options: object) -> Consumer:
    """Subscribe a list to a queue, as basic.consume does."""
    consumer = Consumer(
        options.pop("tag", "c"),
        queue,
        Inbox() if inbox is None else inbox,
        connection_number=1,
        channel_number=1,
        **options,
    )
    queue.add_consumer(consumer)
    queue.start_consumer(consumer)
    return consumer


def inbox(consumer: Consumer) -> Inbox:
    found = consumer.subscriber
    assert isinstance(found, Inbox)
    return found


def bodies(entries: Iterable[QueueEntry]) -> list[bytes]:
    return [entry.message.body for entry in entries]


def take(queue: Queue, count: int = 1) -> list[QueueEntry]:
    """Fetch `count` entries by basic.get, to be settled later."""
    entries = [queue.get(no_ack=False) for _ in range(count)]
    assert all(entry is not None for entry in entries)
    return [entry for entry in entries if entry is not None]


def give_back(queue: Queue, *entries: QueueEntry, is_failure: bool = False, reason: str = "nacked") -> None:
    queue.requeue([(entry, None) for entry in entries], reason, is_failure=is_failure)


def discard(queue: Queue, *entries: QueueEntry, is_failure: bool = False) -> None:
    for entry in entries:
        queue.discard(entry, None, is_failure=is_failure)
    queue.node.run_work()


def headers_of(entry: QueueEntry) -> dict[str, object]:
    headers = entry.message.headers
    return {} if headers is None else headers.to_python()
