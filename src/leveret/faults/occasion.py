"""The occasion of a fault: what is about to happen, whose it is, and what the fault may do about it.

A rule looks at it to see whether it is meant; a fault acts through it. It knows the core and changes nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from leveret.core.model.errors import AmqpError
from leveret.core.model.message import Message
from leveret.core.protocol import publishing
from leveret.core.protocol.state import ChannelState, State
from leveret.core.wire.errors import WireError
from leveret.core.wire.methods import BasicPublish, ConnectionStartOk
from leveret.core.wire.properties import Properties
from leveret.faults.fault import Point
from leveret.observe.message_view import MessageView

if TYPE_CHECKING:
    from leveret.core.model.consumer import Consumer
    from leveret.core.model.message import QueueEntry
    from leveret.core.model.node import Node
    from leveret.core.protocol.assembler import Content
    from leveret.core.protocol.channel import Channel
    from leveret.core.protocol.connection import Connection
    from leveret.core.protocol.delivery import Delivery


class Dice(Protocol):
    """Seeded chance: `random.Random` is one."""

    def random(self) -> float:
        """A number from 0 up to 1."""


def _nothing() -> None:
    """What would be done where nothing is about to be done."""


@dataclass(slots=True, eq=False)
class Occasion:
    """This is one thing that happens, or is about to."""

    # The method, event or other name that rules wait for.
    on: str
    point: Point
    node: Node
    dice: Dice
    connection: Connection | None = None
    channel_number: int | None = None
    # What is sent, by whom the name says; a publish with its content.
    method: object = None
    content: Content | None = None
    # What the broker would send.
    octets: bytes = b""
    source: Message | None = None
    is_redelivered: bool = False
    entry: QueueEntry | None = None
    subscription: Consumer | None = None
    queue_name: str | None = None
    consumer_tag: str | None = None
    # The publish number and whether the broker took it, where a confirm is at stake.
    sequence: int = 0
    is_taken: bool = True
    # What happens if the fault does not take over.
    proceed: Callable[[], None] = _nothing
    # All that faults of this broker keep back: by which fault, and until when.
    kept: dict[Occasion, tuple[str, int]] = field(default_factory=dict)

    @property
    def client_name(self) -> str | None:
        """What the client calls itself, also while it is saying so."""
        if self.connection is None:
            return None
        if isinstance(self.method, ConnectionStartOk) and self.point == "method":
            return self.connection.named_by(self.method.client_properties)
        return self.connection.client_name

    @property
    def channel(self) -> Channel | None:
        """The channel it concerns, if it is open."""
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
        """The queue it concerns."""
        if self.queue_name is not None:
            return self.queue_name
        delivery = self.delivery
        if delivery is not None:
            return delivery.queue.name
        name: str | None = getattr(self.method, "queue", None)
        return name

    @property
    def consumer(self) -> str | None:
        """The consumer tag it concerns."""
        if self.consumer_tag is not None:
            return self.consumer_tag
        delivery = self.delivery
        if delivery is not None:
            return None if delivery.consumer is None else delivery.consumer.tag
        tag: str | None = getattr(self.method, "consumer_tag", None)
        return tag

    @property
    def message(self) -> MessageView | None:
        """The message it concerns."""
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
        """The text with which the broker refuses this publish, None if it takes it or if this is no publish."""
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
        """Whether the conversation it belongs to has ended meanwhile."""
        connection = self.connection
        if connection is None or connection.state in (State.CLOSING, State.ENDING):
            return True
        if not self.channel_number:
            return False
        channel = self.channel
        return channel is not None and channel.state is ChannelState.CLOSING

    def soon(self, act: Callable[[], None]) -> None:
        """Do it once the broker has finished what it is about."""
        self.node.work.append(act)

    def later(self, span_us: int, act: Callable[[], None]) -> None:
        """Do it so much later on the broker's clock."""
        self.node.timers.add(self.node.now + span_us, act)

    def keep(self, fault_name: str, until: int) -> None:
        """It is kept back, until that instant at the latest: the broker is not idle meanwhile."""
        self.kept[self] = (fault_name, until)

    def keep_until(self, fault_name: str, span_us: int, act: Callable[[], None]) -> None:
        """Keep it back for so long on the broker's clock, then act."""

        def let_go() -> None:
            self.let_go()
            act()

        self.keep(fault_name, self.node.now + span_us)
        self.later(span_us, let_go)

    def let_go(self) -> None:
        """It is kept back no longer."""
        self.kept.pop(self, None)

    def proceed_silently(self) -> None:
        """Let the broker do it, and send nothing of what it would send to this client."""
        if self.connection is None:
            self.proceed()
            return
        first = self.connection.output_count
        self.proceed()
        self.connection.forget_output(first)
