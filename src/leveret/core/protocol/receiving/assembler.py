"""Decoding what a client says: `decode` makes a method of a frame, the assembler also a content of several frames.

This module knows what RabbitMQ answers to frames that cannot be decoded or are out of order. It does not know what
methods do.
"""

from __future__ import annotations

from io import BytesIO
from struct import Struct
from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.errors import CommandInvalid
from leveret.core.protocol import refusals
from leveret.core.protocol.refusals import FrameError, UnexpectedFrame
from leveret.core.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from leveret.core.wire.errors import MalformedUtf8, Undecodable
from leveret.core.wire.methods import (
    METHODS,
    REFUSED_NAMES,
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    Method,
)
from leveret.core.wire.values import NEARLY_UTF8

_ID: Final = Struct(">I")
# Class, weight, body size. Property flags and values follow.
_CONTENT_HEADER: Final = Struct(">HHQ")
_PROPERTIES_AT: Final = _CONTENT_HEADER.size
# The most memory that is set aside for a body before it has arrived, however long its header says it is.
_SET_ASIDE_BYTES: Final = 16 * 1024 * 1024
# The methods of a server that have a content.
_SERVER_CONTENT_IDS: Final = (BasicReturn.ID, BasicDeliver.ID, BasicGetOk.ID)


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
    """An assembler of what arrives on one channel: methods, and frame by frame their contents.

    It knows nothing of the channel's state, as in RabbitMQ: frames must fit together on any channel.
    """

    __slots__ = (
        "_body",
        "_compat",
        "_method_id",
        "_method_octets",
        "_missing_bytes",
        "_properties_octets",
        "_publish",
    )

    def __init__(self, compat: Compat) -> None:
        self._compat = compat
        # The method whose header (if properties are None) or body has not arrived yet; 0: a method comes next.
        self._method_id = 0
        # The method, unless only a server sends it.
        self._publish: BasicPublish | None = None
        self._method_octets = b""
        self._properties_octets: bytes | None = None
        # What has arrived of a body of several frames.
        self._body: BytesIO | None = None
        self._missing_bytes = 0

    def feed(self, kind: int, payload: bytes) -> Published | tuple[Method, None] | None:
        """Add the next frame, and return the method and its content, if it has one, once they are whole.

        Hot: once per frame of a publish.

        Raises what RabbitMQ answers to a frame that is out of order, and CommandInvalid for a method of a server.
        """
        if not self._method_id:
            return self._take_method(kind, payload)
        if self._properties_octets is None:
            return self._take_header(kind, payload)
        return self._take_body(kind, payload)

    def _take_method(self, kind: int, payload: bytes) -> tuple[Method, None] | None:
        if kind != FRAME_METHOD:
            raise UnexpectedFrame("expected method frame, got non method frame instead").at(0)
        publish = None
        try:
            method = decode(payload, self._compat)
        except CommandInvalid as error:
            if error.method_id not in _SERVER_CONTENT_IDS:
                raise
            method_id = error.method_id
        else:
            if not isinstance(method, BasicPublish):
                return method, None
            publish, method_id = method, method.ID
        self._publish, self._method_octets, self._method_id = publish, payload, method_id
        return None

    def _take_header(self, kind: int, payload: bytes) -> Published | None:
        if kind != FRAME_HEADER:
            raise self._expected_header(kind, payload)
        class_id, weight, size = _CONTENT_HEADER.unpack_from(payload)
        if weight != 0:
            raise self._expected_header(kind, payload)
        if class_id != CLASS_BASIC:
            text = f"expected content header for class {CLASS_BASIC}, got one for class {class_id} instead"
            raise UnexpectedFrame(text).at(self._method_id)
        limit = self._compat.max_announced_body_bytes
        if limit is not None and size > limit:
            text = f"content body size {size} exceeds maximum allowed size {limit}"
            raise FrameError(text).at(self._method_id)
        self._properties_octets = payload[_PROPERTIES_AT:]
        self._missing_bytes = size
        return None if size else self._finished(b"")

    def _take_body(self, kind: int, payload: bytes) -> Published | None:
        if kind != FRAME_BODY:
            refuse_unknown_method(kind, payload)
            text = "expected content body, got non content body frame instead"
            raise UnexpectedFrame(text).at(self._method_id)
        expected_bytes = self._missing_bytes
        self._missing_bytes -= len(payload)
        if self._missing_bytes < 0:
            self._exceed()
            return None
        if self._body is None:
            if not self._missing_bytes:
                return self._finished(payload)
            # The buffer has the body's size, so each frame is copied to its place as it arrives, and the whole body is
            # not copied again after the last.
            self._body = BytesIO(bytes(min(expected_bytes, _SET_ASIDE_BYTES)))
        self._body.write(payload)
        return None if self._missing_bytes else self._finished(self._body.getvalue())

    def _exceed(self) -> None:
        """Refuse a body that is too long, in versions that notice. In others the content never ends."""
        if self._compat.refuses_excess_body_at_once:
            raise FrameError("content body frame exceeds remaining content size").at(self._method_id)
        self._body = None

    def _finished(self, body: bytes) -> Published:
        publish, properties_octets, method_id = self._publish, self._properties_octets, self._method_id
        assert properties_octets is not None, "content ends without its header"
        self._publish = self._properties_octets = self._body = None
        self._method_id = 0
        if publish is None:
            raise unimplemented(method_id)
        return publish, Content(properties_octets, body, self._method_octets)

    def _expected_header(self, kind: int, payload: bytes) -> UnexpectedFrame:
        refuse_unknown_method(kind, payload)
        text = f"expected content header for class {CLASS_BASIC}, got non content header frame instead"
        return UnexpectedFrame(text).at(self._method_id)


def refuse_unknown_method(kind: int, payload: bytes) -> None:
    """Raise UnknownMethod for a method that does not exist. RabbitMQ knows it before it knows that it is misplaced."""
    if kind == FRAME_METHOD:
        method_id = _ID.unpack_from(payload)[0]
        if method_id not in METHODS and method_id not in REFUSED_NAMES:
            raise UnknownMethod(method_id)


def unimplemented(method_id: int) -> CommandInvalid:
    """Return the refusal of a method that no channel accepts."""
    return CommandInvalid("unimplemented method").at(method_id)


def decode(payload: bytes, compat: Compat) -> Method:
    """Return the method in a frame's payload.

    Raises AmqpError, or UnknownMethod or UnknownFieldType, after which RabbitMQ resets the socket.
    """
    method_id = _ID.unpack_from(payload)[0]
    method_class = METHODS.get(method_id)
    if method_class is None:
        raise unimplemented(method_id) if method_id in REFUSED_NAMES else UnknownMethod(method_id)
    errors = NEARLY_UTF8 if compat.accepts_nearly_utf8 else "strict"
    try:
        # RabbitMQ decodes a method before it checks who sent it (seen on 4.3).
        method = method_class.decode(payload, "surrogateescape" if method_id in _SERVER_CONTENT_IDS else errors)
    except (Undecodable, MalformedUtf8) as error:
        raise refusals.of_arguments(error, method_id) from None
    if "C" not in method.SENDERS:
        raise unimplemented(method_id)
    return method
