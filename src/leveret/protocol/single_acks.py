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

# Kind, channel, size, method id, delivery tag, flags, frame end.
_FRAME: Final = Struct(">BHIIQBB")
_PAYLOAD_SIZE: Final = 13
# Size and method id, by which such a frame is known behind kind and channel.
_MARK: Final = Struct(">II").pack(_PAYLOAD_SIZE, BasicAck.ID)
_MARK_AT: Final = 3


def take_from(reader: FrameReader, connection: Connection) -> bool:
    """Settle the single acknowledgements that come next; whether there was one. Hot: a loop over acks."""
    octets, start = reader.unread()
    at, length, node = start, len(octets), connection.node
    while octets.startswith(_MARK, at + _MARK_AT) and at + _FRAME.size <= length:
        kind, number, _, _, tag, flags, frame_end = _FRAME.unpack_from(octets, at)
        channel = connection.channels.get(number)
        if channel is None or flags or kind != FRAME_METHOD or frame_end != FRAME_END or not _is_simple(channel):
            break
        delivery = channel.unacked.pop(tag, None)
        if delivery is None:
            break
        basic.acknowledge(channel, delivery)
        at += _FRAME.size
        if node.work:
            node.run_work()
    reader.skip_to(at)
    return at > start


def _is_simple(channel: Channel) -> bool:
    return channel.state is ChannelState.OPEN and not channel.assembler.is_waiting and basic.settles_one_by_one(channel)
