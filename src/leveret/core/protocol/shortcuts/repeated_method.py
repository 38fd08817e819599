"""The shortcut for a publish that repeats the method of the last one, with properties of its own.

Clients that number their messages never repeat a whole publish, but most of them send it in one piece: method, header
and one body frame. This shortcut takes such a piece out of the stream at once. The publish then goes the way of all
others (`handlers.basic.publish`). It knows only the layout of frames. If a piece is incomplete or malformed,
`FrameReader` and `Assembler` take it frame by frame. A property test checks that both ways give the same result.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from leveret.core.protocol.channel import Channel
from leveret.core.protocol.receiving.assembler import Content, Published
from leveret.core.protocol.state import ChannelState
from leveret.core.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_END, FRAME_END_OCTET, FRAME_HEADER, FRAME_METHOD
from leveret.core.wire.frames import FrameReader, wrap
from leveret.core.wire.methods import BasicPublish

# The start of a header frame: payload size, class and weight, body size. Properties follow.
_HEADER: Final = Struct(">I4sQ")
_PROPERTIES_AT: Final = _HEADER.size - 4
_CLASS_AND_WEIGHT: Final = Struct(">HH").pack(CLASS_BASIC, 0)
# The end of a header frame with the kind and channel of the body frame, then the payload size of the body frame.
_BETWEEN: Final = Struct(">4sI")
_KIND_AND_NUMBER: Final = Struct(">BH")
# Far below every limit on a body's announced size.
_LARGEST_BODY: Final = 1 << 20


class RepeatedMethod:
    """A method that a channel has published with twice, and the frame that identifies it."""

    __slots__ = ("_between", "_front", "_method", "_method_octets", "channel")

    def __init__(self, channel: Channel, method: BasicPublish, method_octets: bytes) -> None:
        self.channel = channel
        self._method = method
        self._method_octets = method_octets
        # The method frame with the constant start of the header frame, and the constant bytes between header and body.
        header_kind = _KIND_AND_NUMBER.pack(FRAME_HEADER, channel.number)
        self._front = wrap(FRAME_METHOD, channel.number, method_octets) + header_kind
        self._between = FRAME_END_OCTET + _KIND_AND_NUMBER.pack(FRAME_BODY, channel.number)

    def is_of(self, channel: Channel, method_octets: bytes) -> bool:
        """Return whether this is the given method on the given channel."""
        return channel is self.channel and method_octets == self._method_octets

    def take_from(self, reader: FrameReader) -> Published | None:
        """Return the next publish if it is whole and has this method, else None. Hot: once per publish."""
        octets, at = reader.octets, reader.at
        header_at = at + len(self._front)
        properties_at = header_at + _HEADER.size
        if octets[at:header_at] != self._front or len(octets) < properties_at:
            return None
        if self.channel.state is not ChannelState.OPEN or self.channel.node.alarms:
            return None
        header_size, class_and_weight, size = _HEADER.unpack_from(octets, header_at)
        properties_end = properties_at + header_size - _PROPERTIES_AT
        body_at = properties_end + _BETWEEN.size
        end = body_at + size
        limit = reader.frame_max
        if not 0 < size <= limit or not _PROPERTIES_AT <= header_size <= limit or len(octets) <= end:
            return None
        between, body_size = _BETWEEN.unpack_from(octets, properties_end)
        is_as_expected = between == self._between and body_size == size and class_and_weight == _CLASS_AND_WEIGHT
        if not is_as_expected or size > _LARGEST_BODY or octets[end] != FRAME_END:
            return None
        reader.at = end + 1
        return self._method, Content(octets[properties_at:properties_end], octets[body_at:end], self._method_octets)


def repeated(channel: Channel, method: BasicPublish, method_octets: bytes) -> RepeatedMethod | None:
    """Return a shortcut for the method of a publish, or None until a channel has sent it twice in a row."""
    shortcut = channel.connection.repeated_method
    if shortcut is not None and shortcut.is_of(channel, method_octets):
        return shortcut
    return RepeatedMethod(channel, method, method_octets) if channel.last_publish_octets[0] == method_octets else None
