"""The firehose: copies of everything published and delivered in a vhost, published to amq.rabbitmq.trace.

A virtual host has a firehose while tracing is on and None otherwise, so that it costs nothing when it is off. A copy
has the message's body. Its headers describe the message and where it went (rabbit_trace, 4.3). Messages published to
the trace exchange are not copied, so a trace never traces itself. Copies are enqueued later, from the work list,
because the queue that is delivering may be one of their destinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.routing import AnyQueue
from leveret.core.model.vhost import VirtualHost
from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.core.wire.values import Field, Table, Value, text_field

NAME: Final = "amq.rabbitmq.trace"


class Actor(NamedTuple):
    """The client that publishes or receives."""

    connection: str
    channel: int
    user: str


# The test itself, which has no connection.
TEST: Final = Actor("leveret", 0, "guest")


class TracedChannel(Protocol):
    """A channel, as far as the firehose needs it."""

    def actor(self) -> Actor:
        """Return who uses the channel."""


class FirehoseTracing:
    """The tracing of one virtual host."""

    __slots__ = ("_vhost",)

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost = vhost

    def published(self, message: Message, queues: Sequence[AnyQueue], publisher: TracedChannel | None) -> None:
        """Copy a publish, routed or not."""
        # The default exchange routes to its key whether such a queue exists or not.
        names = message.routing_keys if not message.exchange else [queue.name for queue in queues]
        routed = ("routed_queues", _texts(names))
        self._copy(message, f"publish.{message.exchange}", publisher, last=(routed,))

    def delivered(
        self, entry: QueueEntry, queue_name: str, *, receiver: TracedChannel, properties_octets: bytes | None = None
    ) -> None:
        """Copy a delivery or a message fetched by basic.get.

        `properties_octets` are the encoded properties that were sent, if they differ from the message's own.
        """
        message, properties = entry.message, None
        if properties_octets is not None:
            properties = Properties.decode(properties_octets)
        flag = ("redelivered", Field("I", int(entry.redelivered)))
        self._copy(message, f"deliver.{queue_name}", receiver, properties, after_node=(flag,))

    def _copy(
        self,
        message: Message,
        routing_key: str,
        client: TracedChannel | None,
        properties: Properties | None = None,
        *,
        after_node: tuple[tuple[str, Field], ...] = (),
        last: tuple[tuple[str, Field], ...] = (),
    ) -> None:
        if message.exchange == NAME:
            return
        vhost, actor = self._vhost, TEST if client is None else client.actor()
        headers = (
            ("exchange_name", text_field(message.exchange)),
            ("routing_keys", _texts(message.routing_keys)),
            ("properties", Field("F", _properties(properties or message.properties))),
            ("node", text_field(NODE_NAME)),
            *after_node,
            ("vhost", text_field(vhost.name)),
            ("connection", text_field(actor.connection)),
            ("channel", Field("I", actor.channel)),
            ("user", text_field(actor.user)),
            *last,
        )
        table = Table(headers)
        sent = Properties(headers=table.sorted_unique() if vhost.node.compat.sorts_header_keys else table)
        copy = Message(
            vhost.node.new_message_id(),
            NAME,
            routing_key,
            sent,
            sent.encode(),
            message.body,
            (routing_key,),
        )
        vhost.node.work.append(lambda: self._put(copy))

    def _put(self, copy: Message) -> None:
        self._vhost.put(copy, self._vhost.route(self._vhost.exchanges[NAME], copy))


def _properties(properties: Properties) -> Table:
    # rabbit_trace walks them first to last and prepends each.
    values = ((name, getattr(properties, name)) for name in reversed(PROPERTY_NAMES))
    return Table(tuple((name, _field(value)) for name, value in values if value is not None))


def _field(value: Value | str) -> Field:
    if isinstance(value, Table):
        return Field("F", value)
    if isinstance(value, int):
        # RabbitMQ sends it as a signed 32-bit integer, whatever its type.
        return Field("I", (value + 2**31) % 2**32 - 2**31)
    assert isinstance(value, str)
    return text_field(value)


def _texts(texts: Sequence[str]) -> Field:
    return Field("A", tuple(text_field(text) for text in texts))
