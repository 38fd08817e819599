"""The fast road of a publish: recognising that a publisher repeats itself.

A publisher sends the same method and the same properties again and again, and only bodies differ. Once that has been
seen on the plain road (`handlers.basic.publish`), what it came to is remembered: the queues, the message's address and
its properties. The next publishes are recognised by their octets and put into the queues without being taken apart. The
bet holds while nothing has changed that could lead to another answer: topology, rights, alarms, tracing, the channel's
mode. Whatever does not match goes the plain road; both give the same octets (a property test compares them).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from leveret.model.message import Message
from leveret.model.stored_queue import StoredQueue
from leveret.protocol.assembler import Content
from leveret.protocol.state import ChannelState
from leveret.trace import events
from leveret.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_END, FRAME_END_OCTET, FRAME_HEADER, FRAME_METHOD
from leveret.wire.frames import HEADER, FrameReader, wrap

if TYPE_CHECKING:
    from leveret.model.exchanges.exchange import Exchange
    from leveret.protocol.channel import Channel

_CLASS_AND_WEIGHT: Final = Struct(">HH")
_BODY_SIZE: Final = Struct(">Q")


class RepeatedPublish:
    """What one publish of a channel came to, and the octets by which its repetition is known."""

    __slots__ = (
        "_body_head_at",
        "_channel",
        "_front",
        "_message",
        "_properties_at",
        "_properties_end",
        "_queues",
        "_versions",
    )

    def __init__(self, channel: Channel, content: Content, message: Message, queues: tuple[StoredQueue, ...]) -> None:
        self._channel = channel
        self._message = message
        self._queues = queues
        octets = content.properties_octets
        head = HEADER.pack(FRAME_HEADER, channel.number, 12 + len(octets)) + _CLASS_AND_WEIGHT.pack(CLASS_BASIC, 0)
        # The method frame and the head of the header frame; then the body's size; then the properties and frame end.
        self._front = wrap(FRAME_METHOD, channel.number, content.method_octets) + head
        self._properties_at = len(self._front) + _BODY_SIZE.size
        self._properties_end = octets + FRAME_END_OCTET
        self._body_head_at = self._properties_at + len(self._properties_end)
        self._versions = _versions(channel)

    def is_still_true(self) -> bool:
        """Whether nothing has changed since that could lead to another answer."""
        channel = self._channel
        is_there = channel.connection.channels.get(channel.number) is channel and channel.state is ChannelState.OPEN
        is_plain = channel.transaction is None and not channel.assembler.is_waiting and not channel.node.alarms
        return is_there and is_plain and self._versions == _versions(channel)

    def is_next(self, reader: FrameReader) -> bool:
        """Whether what stands next in the stream begins like it. Hot: once per frame."""
        octets, at = reader.unread()
        return octets.startswith(self._front, at)

    def take_from(self, reader: FrameReader) -> bool:
        """Take all repetitions that stand next in the stream; whether there was one. Hot: a loop over publishes."""
        octets, start = reader.unread()
        at, length, frame_max = start, len(octets), reader.frame_max
        front, properties_end = self._front, self._properties_end
        try:
            while octets.startswith(front, at) and octets.startswith(properties_end, at + self._properties_at):
                size = _BODY_SIZE.unpack_from(octets, at + len(front))[0]
                body_at = at + self._body_head_at + HEADER.size
                end = body_at + size
                if not 0 < size <= frame_max or end >= length or octets[end] != FRAME_END:
                    break
                if HEADER.unpack_from(octets, at + self._body_head_at) != (FRAME_BODY, self._channel.number, size):
                    break
                self._put(octets[body_at:end])
                at = end + 1
        except StructError:
            # The rest has not come yet.
            pass
        reader.skip_to(at)
        return at > start

    def _put(self, body: bytes) -> None:
        # Hot: once per repeated publish. What happens here is what `handlers.basic.publish` does with a routed message.
        channel, known = self._channel, self._message
        node = channel.node
        node.last_message_id = message_id = node.last_message_id + 1
        message = Message(
            message_id,
            known.exchange,
            known.routing_key,
            known.properties,
            known.properties_octets,
            body,
            known.routing_keys,
            known.hidden_keys,
        )
        confirms = channel.confirms
        sequence = None
        if confirms is not None:
            confirms.last_sequence = sequence = confirms.last_sequence + 1
        tap = node.hooks.tap
        if tap is not None:
            connection = channel.connection
            tap((events.PUBLISHED, node.now, channel.vhost.name, connection.number, channel.number, message, sequence))
        is_taken = True
        for queue in self._queues:
            if not queue.enqueue(message):
                is_taken = False
        if confirms is not None and sequence is not None:
            confirms.settle(sequence, message, is_taken=is_taken)
            channel.connection.confirming[channel] = None
        if node.work:
            node.run_work()


def remembered(channel: Channel, content: Content, message: Message, exchange: Exchange) -> RepeatedPublish | None:
    """What to remember of a publish that has just gone the plain road; None when the next may be answered otherwise."""
    octets = (content.method_octets, content.properties_octets)
    last, channel.last_publish_octets = channel.last_publish_octets, octets
    if last != octets or not exchange.routes_by_key_alone or message.properties.reply_to is not None:
        return None
    found = dict.fromkeys(exchange.route(message))
    queues = tuple(queue for queue in found if isinstance(queue, StoredQueue))
    if not queues or len(queues) != len(found) or channel.vhost.firehose is not None:
        return None
    return RepeatedPublish(channel, content, message, queues)


def _versions(channel: Channel) -> tuple[int, int]:
    return channel.node.topology_version, channel.node.access.version
