"""The fast road of an acknowledgement: basic.ack of one delivery, taken straight from the octets.

Consumers send little else, so a run of such frames is recognised by its fixed layout and settled without a method
object. Whatever is not as simple (several at once, transactions, shared prefetch limits, an unknown tag) goes the plain
road of `handlers.basic.ack`, which does the same and answers what is wrong.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from leveret.protocol.handlers import basic
from leveret.protocol.state import ChannelState
from leveret.wire.constants import FRAME_END, FRAME_METHOD
from leveret.wire.frames import FrameReader
from leveret.wire.methods import BasicAck

if TYPE_CHECKING:
    from leveret.protocol.channel import Channel
    from leveret.protocol.connection import Connection

# Kind, channel, size, method id; then delivery tag, flags, frame end.
_HEAD: Final = Struct(">BHII")
_REST: Final = Struct(">QBB")
_SIZE: Final = _HEAD.size + _REST.size
_PAYLOAD_SIZE: Final = 13


def take_from(reader: FrameReader, connection: Connection) -> bool:
    """Settle the single acknowledgements that come next; whether there was one. Hot: a loop over acks."""
    octets, start = reader.octets, reader.at
    at, length, node = start, len(octets), connection.node
    hooks = node.hooks
    rest_at = at + _HEAD.size
    channel, head = _channel_of(octets[at:rest_at], connection), octets[at:rest_at]
    while channel is not None and at + _SIZE <= length and octets[at:rest_at] == head:
        tag, flags, frame_end = _REST.unpack_from(octets, rest_at)
        delivery = None if flags or frame_end != FRAME_END else channel.unacked.pop(tag, None)
        if delivery is None:
            break
        if hooks.tap is not None:
            basic.tap_acked(channel, delivery)
        delivery.queue.acknowledge(delivery.entry, delivery.consumer)
        at += _SIZE
        rest_at += _SIZE
        if node.work:
            node.run_work()
            break
    reader.at = at
    return at > start


def _channel_of(head: bytes, connection: Connection) -> Channel | None:
    """The channel on which a frame that begins so is a simple acknowledgement."""
    if len(head) < _HEAD.size:
        return None
    kind, number, size, method_id = _HEAD.unpack(head)
    channel = connection.channels.get(number)
    if kind != FRAME_METHOD or size != _PAYLOAD_SIZE or method_id != BasicAck.ID or channel is None:
        return None
    is_next = channel.state is ChannelState.OPEN and channel.assembler.publish is None
    return channel if is_next and basic.settles_one_by_one(channel) else None
