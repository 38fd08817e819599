"""Decoding what a client says: `decode` makes a method of a frame, the assembler a content of several frames.

This module knows what RabbitMQ answers to frames that cannot be decoded or are out of order. It does not know what
methods do.
"""

from __future__ import annotations

from struct import Struct, calcsize
from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.errors import CommandInvalid, InternalRefusal
from leveret.core.protocol import refusals
from leveret.core.protocol.refusals import FrameError, UnexpectedFrame
from leveret.core.wire import erlang
from leveret.core.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_HEADER
from leveret.core.wire.errors import MalformedUtf8, Undecodable
from leveret.core.wire.methods import CLIENT_METHODS, SERVER_ONLY_IDS, SERVER_ONLY_LAYOUTS, BasicPublish, ClientMethod

_ID: Final = Struct(">I")
_SIZE: Final = Struct(">I")
# Class, weight, body size. Property flags and values follow.
_CONTENT_HEADER: Final = Struct(">HHQ")
_PROPERTIES_AT: Final = _CONTENT_HEADER.size


class UnknownMethod(Exception):
    """A method id that does not exist. RabbitMQ resets the socket."""


class Content:
    """The content of a publish: the properties (flags and values), the body, and the publish method as it arrived."""

    __slots__ = ("body", "method_octets", "properties_octets")

    def __init__(self, properties_octets: bytes, body: bytes, method_octets: bytes) -> None:
        self.properties_octets = properties_octets
        self.body = body
        self.method_octets = method_octets


# A publish and its content.
Published = tuple[BasicPublish, Content]


class Assembler:
    """An assembler of the contents on one channel, one publish after another, frame by frame."""

    __slots__ = ("_compat", "_method_octets", "_missing_bytes", "_parts", "_properties_octets", "_publish")

    def __init__(self, compat: Compat) -> None:
        self._compat = compat
        # The publish whose header (if properties are None) or body has not arrived yet.
        self._publish: BasicPublish | None = None
        self._method_octets = b""
        self._properties_octets: bytes | None = None
        self._parts: list[bytes] = []
        self._missing_bytes = 0

    def begin(self, publish: BasicPublish, octets: bytes) -> None:
        """Begin with the method of a publish, decoded and as it arrived."""
        self._publish, self._method_octets = publish, octets

    def feed(self, kind: int, payload: bytes) -> Published | None:
        """Add the next frame, and return the publish and its content once it is whole.

        Hot: once per frame of a content.

        Raises what RabbitMQ answers to a frame that is out of order.
        """
        if self._properties_octets is None:
            return self._take_header(kind, payload)
        return self._take_body(kind, payload)

    def _take_header(self, kind: int, payload: bytes) -> Published | None:
        if kind != FRAME_HEADER or len(payload) < _PROPERTIES_AT:
            raise _expected_header("got non content header frame instead")
        class_id, weight, size = _CONTENT_HEADER.unpack_from(payload)
        if weight != 0:
            raise _expected_header("got non content header frame instead")
        if class_id != CLASS_BASIC:
            raise _expected_header(f"got one for class {class_id} instead")
        limit = self._compat.max_announced_body_bytes
        if limit is not None and size > limit:
            text = f"content body size {size} exceeds maximum allowed size {limit}"
            raise FrameError(text).at(BasicPublish.ID)
        self._properties_octets = payload[_PROPERTIES_AT:]
        self._missing_bytes = size
        return None if size else self._finished()

    def _take_body(self, kind: int, payload: bytes) -> Published | None:
        if kind != FRAME_BODY:
            raise _expected_body()
        self._missing_bytes -= len(payload)
        if self._missing_bytes < 0:
            self._exceed()
            return None
        self._parts.append(payload)
        return None if self._missing_bytes else self._finished()

    def _exceed(self) -> None:
        """Refuse a body that is too long, in versions that notice. In others the content never ends."""
        if self._compat.refuses_excess_body_at_once:
            raise FrameError("content body frame exceeds remaining content size").at(BasicPublish.ID)
        self._parts.clear()

    def _finished(self) -> Published:
        publish, properties_octets = self._publish, self._properties_octets
        assert publish is not None, "content ends without its publish"
        assert properties_octets is not None, "content ends without its header"
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._publish = self._properties_octets = None
        self._parts = []
        return publish, Content(properties_octets, body, self._method_octets)


def decode(payload: bytes) -> ClientMethod:
    """Return the method in a frame's payload.

    Raises AmqpError, or UnknownMethod or UnknownFieldType, after which RabbitMQ resets the socket.
    """
    method_id = _ID.unpack_from(payload)[0]
    method_class = CLIENT_METHODS.get(method_id)
    if method_class is None:
        if method_id in SERVER_ONLY_IDS:
            # RabbitMQ decodes the method before it checks who sent it (seen on 4.3).
            _refuse_misfit(SERVER_ONLY_LAYOUTS.get(method_id), method_id, payload)
            raise CommandInvalid("unimplemented method").at(method_id)
        raise UnknownMethod(method_id)
    try:
        return method_class.decode(payload)
    except (Undecodable, MalformedUtf8) as error:
        raise refusals.of_arguments(error, method_id) from None


def _refuse_misfit(layout: str | None, method_id: int, payload: bytes) -> None:
    """Refuse arguments that are too short, too long or followed by other bytes."""
    if layout is None:
        return
    at, length = _ID.size, len(payload)
    for letter in layout:
        if letter == "s":
            at += 1 + (payload[at] if at < length else 0)
        elif letter == "l":
            at += _SIZE.size + (_SIZE.unpack_from(payload, at)[0] if at + _SIZE.size <= length else 0)
        else:
            at += calcsize(f">{letter}")
    if at != length:
        raise FrameError(f"cannot decode {erlang.binary_numbers(payload[_ID.size :])}").at(method_id)


def undecodable_properties() -> InternalRefusal:
    """Return what RabbitMQ answers to properties that crash its decoder."""
    return InternalRefusal()


def _expected_header(what_came: str) -> UnexpectedFrame:
    return UnexpectedFrame(f"expected content header for class {CLASS_BASIC}, {what_came}").at(BasicPublish.ID)


def _expected_body() -> UnexpectedFrame:
    return UnexpectedFrame("expected content body, got non content body frame instead").at(BasicPublish.ID)
