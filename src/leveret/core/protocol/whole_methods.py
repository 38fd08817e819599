"""The fast road of a method: one that stands in one frame on an open channel goes straight to its handler.

It asks what reader, assembler and dispatcher ask one after the other on the plain road, and takes the frame when every
answer is the usual one. All else, and whatever does not decode, is left to them; both come to the same (property tests
compare them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.core.model.errors import AmqpError
from leveret.core.protocol.handlers import HANDLERS
from leveret.core.protocol.state import ChannelState, State
from leveret.core.wire.constants import FRAME_END, FRAME_HEADER_SIZE, FRAME_METHOD
from leveret.core.wire.errors import WireError
from leveret.core.wire.frames import HEADER, FrameReader
from leveret.core.wire.methods import CLIENT_METHODS

if TYPE_CHECKING:
    from leveret.core.protocol.connection import Connection

_ID_SIZE: Final = 4
# How a method is decoded and handled, by the octets of its id; not basic.publish, which has a content behind it.
_KNOWN: Final = {
    method_id.to_bytes(_ID_SIZE, "big"): (method.decode, HANDLERS[method])
    for method_id, method in CLIENT_METHODS.items()
    if method in HANDLERS
}


def take_from(reader: FrameReader, connection: Connection, method_octets: bytes) -> bool:
    """Handle the method whose id comes next in the stream, if all about it is as usual; whether it was.

    Hot: once per method.
    """
    known = _KNOWN.get(method_octets)
    if known is None or connection.state is not State.OPENED:
        return False
    octets, at = reader.octets, reader.at
    kind, number, size = HEADER.unpack_from(octets, at)
    payload_at = at + FRAME_HEADER_SIZE
    end = payload_at + size
    if kind != FRAME_METHOD or not _ID_SIZE <= size <= reader.frame_max or len(octets) <= end:
        return False
    if octets[end] != FRAME_END:
        return False
    channel = connection.channels.get(number)
    if channel is None or channel.state is not ChannelState.OPEN or channel.assembler.publish is not None:
        return False
    decode, handle = known
    try:
        method = decode(octets[payload_at:end])
    except WireError:
        return False
    reader.at = end + 1
    try:
        handle(channel, method)
    except AmqpError as error:
        if error.method_id is None:
            error.method_id = method.ID
        connection.refuse(number, error)
    if connection.node.work:
        connection.node.run_work()
    return True
