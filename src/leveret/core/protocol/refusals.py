"""Refusals that only a conversation needs: of frames, logins and commits; and how any refusal looks on the wire.

`leveret.core.model.errors` holds the refusals of the model, and the base classes.
"""

from __future__ import annotations

from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.errors import AmqpError, HardError
from leveret.core.wire import erlang
from leveret.core.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, SHORT_STRING_MAX_SIZE
from leveret.core.wire.errors import MalformedUtf8, Undecodable
from leveret.core.wire.frames import BadFrameEnd, FrameTooLarge

# How many bytes a frame of each kind has at least: the ids of a method; class, weight and body size of a header.
LEAST_SIZES: Final = {FRAME_METHOD: 4, FRAME_HEADER: 12, FRAME_BODY: 0, FRAME_HEARTBEAT: 0}

# Reply code, reply text, class id, method id.
CloseFields = tuple[int, str, int, int]


class LoginRefused(HardError):
    """A 403 during login, the only 403 that ends the connection."""

    code, name = 403, "ACCESS_REFUSED"


class FrameError(HardError):
    """A 501: bytes that are no frame, or a frame that cannot be decoded."""

    code, name = 501, "FRAME_ERROR"


class ChannelError(HardError):
    """A 504: a method that does not fit the state of its channel or connection."""

    code, name = 504, "CHANNEL_ERROR"


class UnexpectedFrame(HardError):
    """A 505: a frame that is out of order."""

    code, name = 505, "UNEXPECTED_FRAME"


class ResourceError(HardError):
    """A 506: a commit to a queue that has been deleted."""

    code, name = 506, "RESOURCE_ERROR"


def close_fields(error: AmqpError, compat: Compat) -> CloseFields:
    """Return the fields of channel.close or connection.close for an error."""
    method_id, text = error.method_id or 0, error.reply_text
    if not compat.cuts_texts_by_characters:
        octets = erlang.text(error.whole_text)
        octets = octets if len(octets) <= SHORT_STRING_MAX_SIZE else octets[:252] + b"..."
        text = octets.decode("utf-8", "surrogateescape")
    return error.code, text, method_id >> 16, method_id & 0xFFFF


def breaks_encoder(error: AmqpError, compat: Compat) -> bool:
    """Return whether a text, cut by characters, is still too long in bytes. RabbitMQ crashes on it."""
    return compat.cuts_texts_by_characters and len(erlang.text(error.reply_text)) > SHORT_STRING_MAX_SIZE


def of_frame(error: FrameTooLarge | BadFrameEnd, frame_max: int) -> FrameError:
    """Return the refusal of a frame that cannot be cut out of the stream."""
    if isinstance(error, FrameTooLarge):
        text = f"type {error.kind}, all octets = <<>>: {{frame_too_large,{error.size},{frame_max - 8}}}"
    else:
        text = f"{described(error.kind, error.payload)}: "
        text += erlang.pair("invalid_frame_end_marker", str(error.octet), len(text))
    return FrameError(text).at(0)


def of_arguments(error: Undecodable | MalformedUtf8, method_id: int) -> FrameError:
    """Return the refusal of a method whose arguments cannot be decoded."""
    if isinstance(error, Undecodable):
        return FrameError(f"cannot decode {erlang.binary_numbers(error.octets)}").at(method_id)
    return FrameError("Malformed UTF-8 in shortstr").at(0)


def refuse_unknown_frame(kind: int, payload: bytes) -> None:
    """Refuse a frame of unknown kind, one that is too short for its kind, and a heartbeat with a payload."""
    least_size = LEAST_SIZES.get(kind)
    if least_size is None or len(payload) < least_size or (kind == FRAME_HEARTBEAT and payload):
        raise FrameError(f"{described(kind, payload)}: unknown_frame").at(0)


def described(kind: int, payload: bytes) -> str:
    """Return a frame as RabbitMQ's texts show it."""
    if len(payload) > 16:
        return f"type {kind}, first 16 octets = {erlang.binary(payload[:16])}"
    return f"type {kind}, all octets = {erlang.binary(payload)}"
