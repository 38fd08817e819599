"""Commands of AMQP cut out of frames: a method, and the content of those that carry one.

Both directions of a proxied connection use it, and the connection of the test itself. It judges nothing: the server
does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from leveret.core.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from leveret.core.wire.errors import WireError
from leveret.core.wire.frames import FrameReader, method_frame, wrap
from leveret.core.wire.methods import METHODS, BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, Method

_WITH_CONTENT: Final = (BasicPublish, BasicDeliver, BasicGetOk, BasicReturn)
# Whatever the two sides have negotiated between them.
_ANY_SIZE: Final = 2**32
_HEADER_SIZE: Final = 12


class Command(NamedTuple):
    """A method with its content, and the frames it came in. `method` is None for what is no method."""

    channel_number: int
    method: Method | None
    frames: bytes
    properties: bytes = b""
    body: bytes = b""


class CommandReader:
    """A reader of the commands of one direction of one connection."""

    def __init__(self) -> None:
        self._frames = FrameReader(_ANY_SIZE)
        # The commands whose contents have not arrived whole, by channel.
        self._begun: dict[int, _Begun] = {}

    def is_amid(self, channel_number: int) -> bool:
        """Return whether a command on a channel has begun and its content is not whole."""
        return channel_number in self._begun

    def feed(self, octets: bytes) -> Iterator[Command]:
        """Yield the commands that these bytes complete. Raises WireError for bytes that are no frames."""
        self._frames.feed(octets)
        while (frame := self._frames.next()) is not None:
            kind, number, payload = frame
            command = self._command(kind, number, payload, wrap(kind, number, payload))
            if command is not None:
                yield command

    def _command(self, kind: int, number: int, payload: bytes, frame: bytes) -> Command | None:
        begun = self._begun.get(number)
        if kind in (FRAME_HEADER, FRAME_BODY) and begun is not None:
            begun.add(kind, payload, frame)
            if not begun.is_whole:
                return None
            del self._begun[number]
            return Command(number, begun.method, b"".join(begun.frames), begun.properties, b"".join(begun.pieces))
        method = _decoded(payload) if kind == FRAME_METHOD else None
        if isinstance(method, _WITH_CONTENT):
            self._begun[number] = _Begun(method, frame)
            return None
        return Command(number, method, frame)


class _Begun:
    """A command whose content is still arriving."""

    def __init__(self, method: Method, frame: bytes) -> None:
        self.method = method
        self.frames = [frame]
        self.properties = b""
        self.pieces: list[bytes] = []
        # What is missing of the body; None before the header.
        self._left: int | None = None

    def add(self, kind: int, payload: bytes, frame: bytes) -> None:
        """Add a frame of the content."""
        self.frames.append(frame)
        if kind == FRAME_HEADER:
            self._left = int.from_bytes(payload[4:_HEADER_SIZE])
            self.properties = payload[_HEADER_SIZE:]
        else:
            self.pieces.append(payload)
            self._left = (self._left or 0) - len(payload)

    @property
    def is_whole(self) -> bool:
        """Whether the header and all of the body have arrived."""
        return self._left is not None and self._left <= 0


def _decoded(payload: bytes) -> Method | None:
    kind = METHODS.get(int.from_bytes(payload[:4]))
    try:
        return None if kind is None else kind.decode(payload, "surrogateescape")
    except WireError:
        return None


def with_method(command: Command, method: Method) -> bytes:
    """Return the frames of a command with another method in front of its content."""
    first = method_frame(command.channel_number, method)
    assert command.method is not None
    return first + command.frames[len(method_frame(command.channel_number, command.method)) :]
