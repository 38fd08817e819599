"""A connection of the test itself: it has no socket, and one channel that passes messages to a callback.

It is one of the node's connections and has a negative number. So a restart ends it, and its queues take back the
messages it holds. Views leave it out, because they show only clients. Its events have no connection number, because
they are the test's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from leveret.core.hooks import Faults
from leveret.core.model.errors import AmqpError
from leveret.core.model.message import QueueEntry
from leveret.core.model.node import Node
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.vhost import NO_CLIENT, VirtualHost
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.state import State
from leveret.core.wire.methods import Method
from leveret.core.wire.properties import Properties
from leveret.observe.views.message_view import MessageView, entry_view
from leveret.scripted.own_publisher import EveryRight

OnMessage = Callable[[int, MessageView], None]


class OwnConnection(Connection):
    """The connection of one scripted peer."""

    is_client = False

    def __init__(self, node: Node, vhost: VirtualHost, *, is_waited_for: bool) -> None:
        """`is_waited_for`: whether its messages get settled without the test, so that `wait_idle` waits for that."""
        number = min(0, min(node.connections, default=0)) - 1
        super().__init__(node, number=number, peer=("", 0), local=("", 0), dirty=[])
        self._liveness.stop()
        self.vhost = vhost
        self.state = State.OPENED
        self.opened_at = node.now
        self.is_waited_for = is_waited_for
        # The faults of the broker are for clients.
        self.faults = Faults()
        # Why it ended, unless the test ended it.
        self.end_reason: str | None = None
        node.connections[self.number] = self

    @property
    def client_name(self) -> str:
        """The name of the holder of its messages, for reports."""
        return "the test"

    def send(self, octets: bytes) -> None:
        """Send nothing, because there is no client."""

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """Send nothing, because there is no client."""

    def mark_dirty(self) -> None:
        """Do nothing, because there is no output."""

    def refuse(self, channel_number: int, error: AmqpError) -> None:
        """End the connection. Every refusal that closes a client's channel or connection does."""
        self.end(error.reply_text)

    def close(self, error: AmqpError) -> None:
        """End the connection, which an operator or a shutdown closes."""
        self.end(error.reply_text)

    shut_down = close

    def end(self, reason: str | None) -> None:
        """End the connection and return the messages it holds to their queues."""
        if self.state is State.OPENED:
            self.state = State.ENDING
            self.end_reason = reason
            self._end(reason)

    def _tap(self, kind: str, *fields: object) -> None:
        """Record nothing, because only connections of clients are events."""


class OwnChannel(Channel):
    """The channel of a connection of the test: the subscriber of one consumer."""

    __slots__ = ("_on_message", "room")

    connection: OwnConnection

    def __init__(self, connection: OwnConnection, on_message: OnMessage) -> None:
        """`on_message` gets the delivery tag and the message, while the broker's lock is held."""
        super().__init__(connection, 1)
        connection.channels[1] = self
        self.origin = NO_CLIENT
        self._on_message = on_message
        # How many more messages it takes; None means any number.
        self.room: int | None = None
        self.is_limited = True
        self.rights = EveryRight("", connection.vhost)

    def send(self, method: Method) -> None:
        """Send nothing, because there is no client."""

    def has_room_for(self, consumer: Consumer) -> bool:
        """Return whether it takes another message."""
        return self.room is None or self.room > 0

    def deliver(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Pass one entry to the callback."""
        super().deliver(consumer, entry)
        if self.room is not None:
            self.room -= 1
        queue, octets = consumer.queue, consumer.queue.delivered_octets(entry, is_get=False)
        view = entry_view(
            entry,
            queue,
            None if octets is None else entry.message.with_properties(Properties.decode(octets)),
            consumer_tag=consumer.tag,
            connection=self.connection.client_name,
            delivered_at=self.node.now,
        )
        self._on_message(self.last_tag, view)

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        """Note that the broker has cancelled the consumer."""
        super().cancelled(consumer, reason)
        self.connection.end_reason = f"cancelled by the broker: {reason}"

    def suspended(self, consumer: Consumer) -> None:
        """Note that the broker calls the consumer cancelled."""
        super().suspended(consumer)
        self.connection.end_reason = "cancelled by the broker: consumer timeout"

    def can_be_cancelled(self) -> bool:
        """Return whether a consumer timeout cancels the consumer instead of closing the channel."""
        return self.node.compat.consumer_timeout_is_quorum_only
