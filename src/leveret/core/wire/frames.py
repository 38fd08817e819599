"""Frames: cutting them out of a stream of octets, in whatever pieces it arrives, and wrapping payloads into them.

A frame is kind (u8), channel (u16), size (u32), payload, and the end octet (AMQP 0-9-1 4.2.3). This module does not
interpret payloads.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from leveret.core.wire.constants import FRAME_END, FRAME_END_OCTET, FRAME_HEADER_SIZE, FRAME_METHOD
from leveret.core.wire.errors import WireError
from leveret.core.wire.methods import Method

HEADER: Final = Struct(">BHI")

# Kind, channel number, payload.
Frame = tuple[int, int, bytes]


class FrameTooLarge(WireError):
    """A frame whose payload is larger than was negotiated."""

    def __init__(self, kind: int, size: int) -> None:
        super().__init__(kind, size)
        self.kind = kind
        self.size = size


class BadFrameEnd(WireError):
    """A frame that does not end with the end octet."""

    def __init__(self, kind: int, payload: bytes, octet: int) -> None:
        super().__init__(kind, payload, octet)
        self.kind = kind
        self.payload = payload
        self.octet = octet


class FrameReader:
    """A reader of the frames of one direction of one connection."""

    __slots__ = ("at", "frame_max", "octets")

    def __init__(self, frame_max: int) -> None:
        # The largest payload of a frame, in octets. It may change between two frames.
        self.frame_max = frame_max
        # All octets that have arrived, and where the next frame begins. A caller that takes whole frames itself moves
        # `at` behind them.
        self.octets = b""
        self.at = 0

    def feed(self, octets: bytes) -> None:
        """Add octets that have arrived."""
        if self.at < len(self.octets):
            octets = self.octets[self.at :] + octets
        self.octets = octets
        self.at = 0

    def next(self) -> Frame | None:
        """Return the next whole frame, or None until more arrives. Hot: once per frame.

        Raises FrameTooLarge or BadFrameEnd.
        """
        octets, at = self.octets, self.at
        payload_at = at + FRAME_HEADER_SIZE
        if len(octets) < payload_at:
            return None
        kind, channel_number, size = HEADER.unpack_from(octets, at)
        if size > self.frame_max:
            raise FrameTooLarge(kind, size)
        end = payload_at + size
        if len(octets) <= end:
            return None
        payload = octets[payload_at:end]
        if octets[end] != FRAME_END:
            raise BadFrameEnd(kind, payload, octets[end])
        self.at = end + 1
        return kind, channel_number, payload


def method_frame(channel_number: int, method: Method) -> bytes:
    """Return a method as a frame. Hot: once per method sent."""
    payload = method.encode()
    return HEADER.pack(FRAME_METHOD, channel_number, len(payload)) + payload + FRAME_END_OCTET


def wrap(kind: int, channel_number: int, payload: bytes) -> bytes:
    """Return one frame around a payload."""
    return HEADER.pack(kind, channel_number, len(payload)) + payload + FRAME_END_OCTET
