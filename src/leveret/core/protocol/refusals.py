"""Refusals that only a conversation knows: of frames, of logins, of commits; and how any refusal looks on the wire.

What the model refuses stands in `leveret.core.model.errors`, with the base classes.
"""

from __future__ import annotations

from leveret.core.compat import Compat
from leveret.core.model.errors import AmqpError, HardError, InternalRefusal
from leveret.core.wire import erlang
from leveret.core.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, SHORT_STRING_MAX_SIZE
from leveret.core.wire.errors import MalformedUtf8, Undecodable
from leveret.core.wire.frames import BadFrameEnd, FrameTooLarge

# Reply code, reply text, class id, method id.
CloseFields = tuple[int, str, int, int]


class LoginRefused(HardError):
    """403 while logging in: the only one that ends the connection."""

    code, name = 403, "ACCESS_REFUSED"


class FrameError(HardError):
    """501."""

    code, name = 501, "FRAME_ERROR"


class ChannelError(HardError):
    """504."""

    code, name = 504, "CHANNEL_ERROR"


class UnexpectedFrame(HardError):
    """505."""

    code, name = 505, "UNEXPECTED_FRAME"


class ResourceError(HardError):
    """506."""

    code, name = 506, "RESOURCE_ERROR"


def close_fields(error: AmqpError, compat: Compat) -> CloseFields:
    """What channel.close or connection.close says of an error."""
    if breaks_encoder(error, compat):
        return InternalRefusal.code, InternalRefusal.name, 0, 0
    method_id, text = error.method_id or 0, error.reply_text
    if not compat.cuts_texts_by_characters:
        octets = erlang.text(error.whole_text)
        octets = octets if len(octets) <= SHORT_STRING_MAX_SIZE else octets[:252] + b"..."
        text = octets.decode("utf-8", "surrogateescape")
    return error.code, text, method_id >> 16, method_id & 0xFFFF


def breaks_encoder(error: AmqpError, compat: Compat) -> bool:
    """Whether a text, cut by characters, is still too long in octets: RabbitMQ crashes on it."""
    return compat.cuts_texts_by_characters and len(erlang.text(error.reply_text)) > SHORT_STRING_MAX_SIZE


def of_frame(error: FrameTooLarge | BadFrameEnd, frame_max: int) -> FrameError:
    """The refusal of a frame that cannot be split off."""
    if isinstance(error, FrameTooLarge):
        text = f"type {error.kind}, all octets = <<>>: {{frame_too_large,{error.size},{frame_max - 8}}}"
    else:
        text = f"{described(error.kind, error.payload)}: {{invalid_frame_end_marker,{error.octet}}}"
    return FrameError(text).at(0)


def of_arguments(error: Undecodable | MalformedUtf8, method_id: int) -> FrameError:
    """Return the refusal of a method whose arguments cannot be decoded."""
    if isinstance(error, Undecodable):
        return FrameError(f"cannot decode {erlang.binary_numbers(error.octets)}").at(method_id)
    return FrameError("Malformed UTF-8 in shortstr").at(0)


def refuse_odd_frame(kind: int, payload: bytes) -> None:
    """Refuse a frame of unknown kind, a method too short to have an id, and a heartbeat with a payload."""
    is_odd = kind not in (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT)
    if is_odd or (kind == FRAME_METHOD and len(payload) < 4) or (kind == FRAME_HEARTBEAT and payload):
        raise FrameError(f"{described(kind, payload)}: unknown_frame").at(0)


def described(kind: int, payload: bytes) -> str:
    """A frame as RabbitMQ's texts show it."""
    if len(payload) > 16:
        return f"type {kind}, first 16 octets = {erlang.binary(payload[:16])}"
    return f"type {kind}, all octets = {erlang.binary(payload)}"
