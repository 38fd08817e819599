"""The views: what a test can read of queues, exchanges, bindings, consumers, channels and connections.

A view is a frozen snapshot. What the broker does afterwards does not change it. Its `repr` is a single line that reads
well in a failing assert. Instants are in microseconds of the broker's clock.

The functions here read the model and never change it. The caller holds the broker's lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from leveret.core.model.binding import Binding
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.node import Node
from leveret.core.model.operators.policy import combined
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.observe.calls.hinting import Hinting
from leveret.observe.texts.state import all_holdings, client_text, connection_name, unsettled
from leveret.observe.views.message_view import MessageView, entry_view, held_view
from leveret.wording import count_text


@dataclass(frozen=True, slots=True, repr=False)
class BindingView(Hinting):
    """A frozen view of a binding from an exchange to a queue or another exchange."""

    source: str
    # "queue" or "exchange".
    destination_kind: str
    destination: str
    routing_key: str
    arguments: dict[str, object]

    def __repr__(self) -> str:
        arguments = f" {self.arguments!r}" if self.arguments else ""
        way = f"{self.source!r} --{self.routing_key!r}--> {self.destination_kind} {self.destination!r}"
        return f"<Binding {way}{arguments}>"


def binding_view(binding: Binding) -> BindingView:
    """Return the view of a binding."""
    return BindingView(
        source=binding.source_name,
        destination_kind=binding.destination_kind,
        destination=binding.destination.name,
        routing_key=binding.routing_key,
        arguments=binding.arguments.to_python(),
    )


@dataclass(frozen=True, slots=True, repr=False)
class ConsumerView(Hinting):
    """A frozen view of a consumer: the subscription of a channel to a queue."""

    tag: str
    queue: str
    # The client's name for its connection, and the channel's number on it.
    connection: str
    channel: int
    no_ack: bool
    exclusive: bool
    # False if it waits behind the single active consumer.
    active: bool
    # 0 means unlimited.
    prefetch_count: int
    unacked_count: int
    priority: int
    arguments: dict[str, object]

    def __repr__(self) -> str:
        limit = f" of at most {self.prefetch_count}" if self.prefetch_count else ""
        held = "no_ack" if self.no_ack else f"{self.unacked_count} unacked{limit}"
        waiting = "" if self.active else ", not active"
        return f"<Consumer {self.tag!r} of {self.connection} on {self.queue!r}: {held}{waiting}>"


def consumer_view(consumer: Consumer, node: Node) -> ConsumerView:
    """Return the view of a consumer."""
    return ConsumerView(
        tag=consumer.tag,
        queue=consumer.queue.name,
        connection=connection_name(node, consumer.connection_number),
        channel=consumer.channel_number,
        no_ack=consumer.no_ack,
        exclusive=consumer.is_exclusive,
        active=consumer.is_active,
        prefetch_count=consumer.prefetch_count,
        unacked_count=consumer.unacked_count,
        priority=consumer.priority,
        arguments=consumer.arguments.to_python(),
    )


@dataclass(frozen=True, slots=True, repr=False)
class QueueFacts(Hinting):
    """What a queue is, and how much it holds. The page, the live page and the control API describe it by these too."""

    name: str
    vhost: str
    type: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: dict[str, object]
    # The names of the policies that apply, and the keys that these set.
    policy: str | None
    policy_keys: dict[str, object]
    # As the arguments and the policies say together.
    dead_letter_exchange: str | None
    dead_letter_routing_key: str | None
    ready_count: int
    unacked_count: int
    consumer_count: int


@dataclass(frozen=True, slots=True, repr=False)
class QueueView(QueueFacts):
    """A frozen view of a queue: its ready and unacked messages, its consumers and bindings."""

    # The next to be delivered first.
    ready: tuple[MessageView, ...]
    # Grouped by channel, in order of delivery.
    unacked: tuple[MessageView, ...]
    consumers: tuple[ConsumerView, ...]
    # The bindings to this queue, without the implicit one from the default exchange.
    bindings: tuple[BindingView, ...]

    def __repr__(self) -> str:
        counts = (
            f"{self.ready_count} ready, {self.unacked_count} unacked, {count_text(self.consumer_count, 'consumer')}"
        )
        return f"<Queue {self.name!r} ({self.type}): {counts}>"

    # Hidden from type checkers, which refuse such a use by themselves.
    if not TYPE_CHECKING:

        def __bool__(self) -> bool:
            return True

        def __iter__(self) -> object:
            __tracebackhide__ = True
            raise TypeError("a queue has ready and unacked messages: take len(queue.ready), or loop over queue.ready")

        __len__ = __iter__


def queue_facts(queue: StoredQueue, vhost: VirtualHost) -> QueueFacts:
    """Return what a queue is, and how much it holds."""
    return QueueFacts(**_facts_of(queue, vhost))


def _facts_of(queue: StoredQueue, vhost: VirtualHost) -> dict[str, Any]:
    policies = vhost.policies.for_queue(queue.name, queue.type_name)
    return {
        "name": queue.name,
        "vhost": vhost.name,
        "type": queue.type_name,
        "durable": queue.durable,
        "exclusive": queue.is_exclusive,
        "auto_delete": queue.auto_delete,
        "arguments": queue.arguments.to_python(),
        "policy": " and ".join(policy.name for policy in policies if policy is not None) or None,
        "policy_keys": dict(combined(*policies)),
        "dead_letter_exchange": queue.settings.dead_letter_exchange,
        "dead_letter_routing_key": queue.settings.dead_letter_routing_key,
        "ready_count": len(queue.ready),
        "unacked_count": len(queue.unacked),
        "consumer_count": len(queue.consumers),
    }


def queue_view(queue: StoredQueue, node: Node, most: int | None = None) -> QueueView:
    """Return the view of a queue, with at most so many of its ready and of its unacked messages; None means all."""
    vhost = node.vhosts[queue.vhost.name]
    held = (holding for holding in all_holdings(node) if holding.delivery.queue is queue)
    return QueueView(
        **_facts_of(queue, vhost),
        ready=tuple(entry_view(entry, queue) for entry in islice(queue.ready, most)),
        unacked=tuple(held_view(holding.delivery, holding.connection) for holding in islice(held, most)),
        consumers=tuple(consumer_view(consumer, node) for consumer in queue.consumers),
        bindings=tuple(map(binding_view, vhost.incoming.get(queue, {}).values())),
    )


@dataclass(frozen=True, slots=True, repr=False)
class ExchangeView(Hinting):
    """A frozen view of an exchange and its bindings."""

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, object]
    # The exchange that gets what finds no queue, by argument or policy.
    alternate_exchange: str | None
    # The bindings from this exchange.
    bindings: tuple[BindingView, ...]

    def __repr__(self) -> str:
        return f"<Exchange {self.name!r} ({self.type}): {count_text(len(self.bindings), 'binding')}>"


def exchange_view(exchange: Exchange, vhost_name: str, most: int | None = None) -> ExchangeView:
    """Return the view of an exchange, with at most so many of its bindings; None means all."""
    return ExchangeView(
        name=exchange.name,
        vhost=vhost_name,
        type=exchange.type_name,
        durable=exchange.durable,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
        arguments=exchange.arguments.to_python(),
        alternate_exchange=exchange.alternate_exchange,
        bindings=tuple(map(binding_view, islice(exchange.bindings.values(), most))),
    )


@dataclass(frozen=True, slots=True, repr=False)
class ChannelView(Hinting):
    """A frozen view of a channel."""

    number: int
    connection: str
    confirming: bool
    transactional: bool
    prefetch_count: int
    # In order of delivery.
    unacked: tuple[MessageView, ...]
    consumers: tuple[ConsumerView, ...]

    def __repr__(self) -> str:
        counts = f"{len(self.unacked)} unacked, {count_text(len(self.consumers), 'consumer')}"
        mode = " confirming" if self.confirming else " transactional" if self.transactional else ""
        return f"<Channel {self.number} of {self.connection}{mode}: {counts}>"


def channel_view(channel: Channel, connection: Connection, node: Node) -> ChannelView:
    """Return the view of a channel."""
    return ChannelView(
        number=channel.number,
        connection=client_text(connection),
        confirming=channel.confirms is not None,
        transactional=channel.transaction is not None,
        prefetch_count=channel.prefetch_count,
        unacked=tuple(held_view(delivery, connection) for delivery in unsettled(channel)),
        consumers=tuple(consumer_view(consumer, node) for consumer in channel.consumers.values()),
    )


@dataclass(frozen=True, slots=True, repr=False)
class ConnectionView(Hinting):
    """A frozen view of a client's connection."""

    number: int
    # The client's own name for the connection, or its product.
    name: str
    user: str
    vhost: str
    # The other end: host and port.
    peer: tuple[str, int]
    opened_at: int | None
    channels: tuple[ChannelView, ...]

    def __repr__(self) -> str:
        where = f"{self.peer[0]}:{self.peer[1]}"
        channels = count_text(len(self.channels), "channel")
        return f"<Connection {self.number} {self.name} from {where} as {self.user!r} on {self.vhost!r}: {channels}>"


def connection_view(connection: Connection, node: Node) -> ConnectionView:
    """Return the view of a connection."""
    return ConnectionView(
        number=connection.number,
        name=client_text(connection),
        user=connection.user,
        vhost=connection.vhost_name,
        peer=connection.peer,
        opened_at=connection.opened_at,
        channels=tuple(channel_view(channel, connection, node) for channel in connection.channels.values()),
    )
