"""The occasion of a fault: what is about to happen, on which connection, and what the fault can do about it.

A rule reads the occasion to decide whether it matches. A fault acts through it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from leveret.core.model.errors import AmqpError
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.node import Node
from leveret.core.model.queues.consumer import Consumer
from leveret.core.protocol import publishing
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.delivery import Delivery
from leveret.core.protocol.receiving.assembler import Content
from leveret.core.protocol.state import ChannelState
from leveret.core.wire.errors import WireError
from leveret.core.wire.methods import BasicPublish, ConnectionStartOk
from leveret.core.wire.properties import Properties
from leveret.observe.views.message_view import MessageView

if TYPE_CHECKING:
    from random import Random

# Where a fault can apply: when a client connects; before the broker handles a method; before it sends a method or a
# delivery; before it owes a publisher a confirm; after an event; and at once, when the rule is added.
Point = Literal["accept", "method", "reply", "deliver", "confirm", "event", "now"]


@dataclass(slots=True, eq=False)
class Occasion:
    """One thing that happens or is about to happen."""

    # The name that rules wait for: a method, an event, "accept" or "now".
    on: str
    point: Point
    node: Node
    dice: Random
    connection: Connection | None = None
    channel_number: int | None = None
    # The method that the client or the broker sends, and the content of a publish.
    method: object = None
    content: Content | None = None
    # The bytes that the broker would send.
    octets: bytes = b""
    source: Message | None = None
    is_redelivered: bool = False
    # Whether a fault has let this delivery get lost.
    is_lost: bool = False
    entry: QueueEntry | None = None
    subscription: Consumer | None = None
    queue_name: str | None = None
    vhost_name: str | None = None
    consumer_tag: str | None = None
    # At the point "confirm": the number of the publish, and whether the broker accepted the message.
    sequence: int = 0
    is_taken: bool = True
    # Have the broker do what it was about to do, which may be nothing.
    proceed: Callable[[], None] = lambda: None
    # Everything that the faults of this broker hold back: by which fault, and until when.
    held: dict[Occasion, tuple[str, int]] = field(default_factory=dict)

    @property
    def connection_number(self) -> int | None:
        """The number of the connection."""
        return None if self.connection is None else self.connection.number

    @property
    def client_name(self) -> str | None:
        """The name that the client gives itself, already known while its connection.start-ok is handled."""
        if self.connection is None:
            return None
        if isinstance(self.method, ConnectionStartOk) and self.point == "method":
            return self.connection.named_by(self.method.client_properties)
        return self.connection.client_name

    @property
    def vhost(self) -> str | None:
        """The name of the virtual host."""
        if self.vhost_name is not None or self.connection is None:
            return self.vhost_name
        return self.connection.vhost_name

    @property
    def channel(self) -> Channel | None:
        """The channel, if it is open."""
        if self.connection is None or self.channel_number is None:
            return None
        return self.connection.channels.get(self.channel_number)

    @property
    def delivery(self) -> Delivery | None:
        """The delivery that a method settles."""
        tag, channel = getattr(self.method, "delivery_tag", None), self.channel
        return None if tag is None or channel is None or self.point != "method" else channel.unacked.get(tag)

    @property
    def queue(self) -> str | None:
        """The name of the queue."""
        if self.queue_name is not None:
            return self.queue_name
        delivery = self.delivery
        if delivery is not None:
            return delivery.queue.name
        name: str | None = getattr(self.method, "queue", None)
        return name

    @property
    def consumer(self) -> str | None:
        """The consumer tag."""
        if self.consumer_tag is not None:
            return self.consumer_tag
        delivery = self.delivery
        if delivery is not None:
            return None if delivery.consumer is None else delivery.consumer.tag
        tag: str | None = getattr(self.method, "consumer_tag", None)
        return tag

    @property
    def message(self) -> MessageView | None:
        """The message."""
        if self.source is not None:
            return MessageView(self.source, redelivered=self.is_redelivered)
        delivery = self.delivery
        if delivery is not None:
            return MessageView(delivery.entry.message, redelivered=delivery.entry.redelivered)
        return None if self.content is None else self._published(self.content)

    def _published(self, content: Content) -> MessageView | None:
        try:
            properties = Properties.decode(content.properties_octets)
        except WireError:
            return None
        exchange, key = getattr(self.method, "exchange", ""), getattr(self.method, "routing_key", "")
        return MessageView(Message(0, exchange, key, properties, content.properties_octets, content.body, (key,)))

    @property
    def refusal(self) -> str | None:
        """The text with which the broker refuses this publish; None if it accepts it or if this is not a publish."""
        channel, method, content = self.channel, self.method, self.content
        if channel is None or content is None or not isinstance(method, BasicPublish):
            return None
        try:
            publishing.checked(channel, method, content)
        except AmqpError as error:
            return error.reply_text
        return None

    @property
    def is_gone(self) -> bool:
        """Whether the connection or the channel has ended meanwhile."""
        connection = self.connection
        if connection is None or connection.state.is_ending:
            return True
        if not self.channel_number:
            return False
        channel = self.channel
        return channel is not None and channel.state is ChannelState.CLOSING

    def call_soon(self, act: Callable[[], None]) -> None:
        """Call `act` once the broker has finished its current step."""
        self.node.work.append(act)

    def call_later(self, delay_us: int, act: Callable[[], None]) -> None:
        """Call `act` after `delay_us` microseconds of the broker's clock."""
        self.node.timers.add(self.node.now + delay_us, act)

    def call_in_real_time(self, delay_us: int, act: Callable[[], None]) -> None:
        """Call `act` after `delay_us` microseconds of real time, even while the test holds the broker's clock."""
        self.node.liveness.add(self.node.wall_now + delay_us, act)

    def hold(self, fault_name: str, until: int) -> None:
        """Mark this occasion as held back until that instant at the latest. Until then the broker is not idle."""
        self.held[self] = (fault_name, until)

    def hold_for(self, fault_name: str, delay_us: int, act: Callable[[], None]) -> None:
        """Hold this occasion back for `delay_us` microseconds of the broker's clock, then call `act`."""

        def release() -> None:
            self.release()
            act()

        self.hold(fault_name, self.node.now + delay_us)
        self.call_later(delay_us, release)

    def release(self) -> None:
        """Hold this occasion back no longer."""
        self.held.pop(self, None)

    def proceed_silently(self) -> None:
        """Have the broker do what it was about to do, without sending anything to this client."""
        if self.connection is None:
            self.proceed()
            return
        first = self.connection.output_count
        self.proceed()
        self.connection.forget_output(first)
