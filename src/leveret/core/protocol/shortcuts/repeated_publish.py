"""The shortcut for a publish that repeats the last one in everything but its body.

A publisher sends the same method and the same properties again and again; only bodies differ. Once this has happened on
the plain road (`handlers.basic.publish`), the outcome is remembered: the queues, the message's address and its
properties. The next publishes are recognised by their bytes and put into the queues without being decoded. The memory
holds while nothing has changed that could lead to another answer: topology, rights, alarms, tracing, the channel's
mode. A publish that does not match goes the plain road. A property test checks that both give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from leveret.core.model.message import Message
from leveret.core.model.queues.classic import ClassicQueue
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.receiving.assembler import Content
from leveret.core.protocol.state import ChannelState
from leveret.core.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_END, FRAME_END_OCTET, FRAME_HEADER, FRAME_METHOD
from leveret.core.wire.frames import HEADER, FrameReader, wrap
from leveret.trace import events

_CLASS_AND_WEIGHT: Final = Struct(">HH")


class RepeatedPublish:
    """The outcome of one publish of a channel, and the bytes that identify its repetition."""

    __slots__ = (
        "_before_body",
        "_channel",
        "_entrances",
        "_front",
        "_message",
        "_prefix",
        "_properties_end",
        "_size",
        "_versions",
    )

    def __init__(self, channel: Channel, content: Content, message: Message, queues: tuple[StoredQueue, ...]) -> None:
        self._channel = channel
        self._message = message
        self._entrances = tuple(_entrance(queue, message) for queue in queues)
        octets = content.properties_octets
        head = HEADER.pack(FRAME_HEADER, channel.number, 12 + len(octets)) + _CLASS_AND_WEIGHT.pack(CLASS_BASIC, 0)
        # The method frame and the start of the header frame. The body's size follows, then the properties.
        self._front = wrap(FRAME_METHOD, channel.number, content.method_octets) + head
        self._properties_end = octets + FRAME_END_OCTET
        # Body size; properties and frame end; kind, channel and size of the body's frame.
        self._before_body = Struct(f">Q{len(self._properties_end)}sBHI")
        # The size of the last body, and everything before a body of that size. Bodies are often of one size.
        self._size = 0
        self._prefix = b""
        self._versions = (channel.node.topology_version, channel.node.access.version)

    def take_from(self, reader: FrameReader) -> bool:
        """Take all repetitions that come next in the stream. Return whether there was one.

        If the answer may differ now, forget what is remembered instead. Hot: a loop over publishes. It does what
        `publishing.publish` does with a routed message.
        """
        octets, start, front = reader.octets, reader.at, self._front
        front_size = len(front)
        if octets[start : start + front_size] != front:
            return False
        if not self._is_valid():
            self._channel.connection.repeated_publish = None
            return False
        at, length = start, len(octets)
        channel, first, entrances = self._channel, self._message, self._entrances
        node, confirms, tap = channel.node, channel.confirms, channel.node.hooks.tap
        # Nothing else adds to them until work is run.
        outcomes = None if confirms is None else confirms.outcomes
        sequence = None
        prefix, size = self._prefix, self._size
        prefix_size = front_size + self._before_body.size
        while True:
            body_at = at + prefix_size
            if octets[at:body_at] != prefix:
                if octets[at : at + front_size] != front or not self._has_other_size(octets, at, reader.frame_max):
                    break
                prefix, size = self._prefix, self._size
                body_at = at + prefix_size
            end = body_at + size
            if end >= length or octets[end] != FRAME_END:
                # The rest has not arrived yet, or the plain road refuses it.
                break
            node.last_message_id = message_id = node.last_message_id + 1
            message = first.repeated(message_id, octets[body_at:end])
            at = end + 1
            if confirms is not None:
                confirms.last_sequence = sequence = confirms.last_sequence + 1
            if tap is not None:
                channel.tap(events.PUBLISHED, message, sequence)
            is_taken = True
            for enter in entrances:
                if not enter(message):
                    is_taken = False
                    if confirms is not None:
                        confirms.has_refused = True
            if outcomes is not None and sequence is not None:
                outcomes.append((sequence, is_taken, message))
            if node.work:
                # The work may invalidate what is remembered.
                channel.connection.do_work()
                break
        reader.at = at
        if at > start and confirms is not None:
            channel.connection.confirming[channel] = confirms
        return at > start

    def _is_valid(self) -> bool:
        """Return whether nothing has changed that could lead to another answer. Hot: once per run."""
        channel, node = self._channel, self._channel.node
        if self._versions != (node.topology_version, node.access.version) or node.alarms:
            return False
        return channel.state is ChannelState.OPEN and channel.transaction is None

    def _has_other_size(self, octets: bytes, at: int, frame_max: int) -> bool:
        """Return whether a publish that begins so repeats this one with a body of another size, in one frame.

        If it does, remember what comes before the body.
        """
        front_end = at + len(self._front)
        end = front_end + self._before_body.size
        if len(octets) < end:
            return False
        size, properties_end, kind, number, body_size = self._before_body.unpack_from(octets, front_end)
        if properties_end != self._properties_end or kind != FRAME_BODY or number != self._channel.number:
            return False
        if body_size != size or not 0 < size <= frame_max or size > self._channel.node.max_message_size:
            return False
        self._size, self._prefix = size, octets[at:end]
        return True


def _entrance(queue: StoredQueue, message: Message) -> Callable[[Message], bool]:
    """Return how repetitions of a message enter a queue.

    A change of the queue's rules invalidates what is remembered.
    """
    if isinstance(queue, ClassicQueue) and queue.is_plain and not message.asks_for_more:
        return queue.take_in
    return queue.enqueue


def remembered(channel: Channel, content: Content, message: Message) -> RepeatedPublish | None:
    """Return what to remember of a publish that went the plain road; None if the next may get another answer."""
    octets = (content.method_octets, content.properties_octets)
    last, channel.last_publish_octets = channel.last_publish_octets, octets
    if last != octets:
        return None
    exchange = channel.vhost.exchanges[message.exchange]
    if not exchange.routes_by_key_alone or message.properties.reply_to is not None:
        return None
    destinations = dict.fromkeys(exchange.route(message))
    queues = tuple(queue for queue in destinations if isinstance(queue, StoredQueue))
    if channel.node.settings.intercepts_incoming:
        return None
    if any(queue.can_refuse_publishers and queue.may_refuse_publishers for queue in queues):
        return None
    if not queues or len(queues) != len(destinations) or channel.vhost.firehose is not None:
        return None
    return RepeatedPublish(channel, content, message, queues)
