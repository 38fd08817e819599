"""The shortcut for acknowledgements of one delivery each, read straight from the bytes.

Consumers send little else, so a run of such frames is recognised by its fixed layout and settled without method
objects. An acknowledgement of several deliveries, in a transaction, under a shared prefetch limit or of an unknown tag
goes the plain road of `handlers.basic.ack`, which does the same and refuses what is wrong.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.handlers import basic
from leveret.core.protocol.state import ChannelState
from leveret.core.wire.constants import FRAME_END, FRAME_METHOD
from leveret.core.wire.frames import FrameReader
from leveret.core.wire.methods import BasicAck

# Kind, channel, size and method id; then all of these with delivery tag, flags and frame end.
_HEAD: Final = Struct(">BHII")
_ACK: Final = Struct(f">{_HEAD.size}sQH")
_PAYLOAD_SIZE: Final = 13
# Flags and frame end of an acknowledgement of one delivery.
_SINGLE: Final = FRAME_END


def take_from(reader: FrameReader, connection: Connection) -> bool:
    """Settle the single acknowledgements that come next. Return whether there was one. Hot: a loop over acks."""
    octets, start = reader.octets, reader.at
    head = octets[start : start + _HEAD.size]
    channel = _channel_of(head, connection)
    if channel is None:
        return False
    at, node = start, connection.node
    tap = node.hooks.tap
    end = len(octets) - (len(octets) - start) % _ACK.size
    for this_head, tag, flags in _ACK.iter_unpack(memoryview(octets)[start:end]):
        if this_head != head or flags != _SINGLE:
            break
        delivery = channel.unacked.pop(tag, None)
        if delivery is None:
            break
        if tap is not None:
            basic.tap_acked(channel, delivery)
        delivery.queue.acknowledge(delivery.entry, delivery.consumer)
        at += _ACK.size
        if node.work:
            connection.do_work()
            break
    reader.at = at
    return at > start


def _channel_of(head: bytes, connection: Connection) -> Channel | None:
    """Return the channel on which a frame with this head is a simple acknowledgement, or None."""
    if len(head) < _HEAD.size:
        return None
    kind, number, size, method_id = _HEAD.unpack(head)
    channel = connection.channels.get(number)
    if kind != FRAME_METHOD or size != _PAYLOAD_SIZE or method_id != BasicAck.ID or channel is None:
        return None
    return channel if channel.state is ChannelState.OPEN and basic.settles_one_by_one(channel) else None
