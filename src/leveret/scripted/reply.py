"""The replies of a responder: a reply in full, and the conversion of plain values to one."""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Unpack

if TYPE_CHECKING:
    from leveret.observe.assertions.keywords import BasicProperties
    from leveret.observe.views.message_view import MessageView

_NOTHING: Final = object()

# What a test can give as an answer; None means no reply.
Answer = object
Answerer = Callable[["MessageView"], Answer]


@dataclass(frozen=True, slots=True, init=False)
class Reply:
    """A reply with its own headers and properties."""

    body: bytes
    properties: Mapping[str, object] = field(default_factory=dict)

    def __init__(
        self,
        body: bytes | str = b"",
        *,
        json: object = _NOTHING,
        headers: Mapping[str, object] | None = None,
        **properties: Unpack[BasicProperties],
    ) -> None:
        """The body can be text, or a value for `json=`, which sets the content type. Keywords are basic properties."""
        values: dict[str, object] = {**properties}
        if json is not _NOTHING:
            if body:
                raise TypeError("Reply(): body and json= were both given; give one of them")
            body = json_format.dumps(json)
            values = {"content_type": "application/json", "content_encoding": "utf-8", **values}
        elif isinstance(body, str):
            values = {"content_type": "text/plain", "content_encoding": "utf-8", **values}
        if headers is not None:
            values["headers"] = headers
        object.__setattr__(self, "body", body.encode() if isinstance(body, str) else bytes(body))
        object.__setattr__(self, "properties", values)


def reply_of(answer: Answer) -> Reply | None:
    """Return the reply for an answer: bytes and text are bodies, an exception is an error, anything else is JSON."""
    if answer is None or isinstance(answer, Reply):
        return answer
    if isinstance(answer, bytes | bytearray | str):
        return Reply(bytes(answer) if isinstance(answer, bytearray) else answer)
    if isinstance(answer, BaseException):
        return error_reply(answer)
    if isinstance(answer, type) and issubclass(answer, BaseException):
        return error_reply(answer())
    return Reply(json=answer)


def error_reply(error: BaseException) -> Reply:
    """Return the reply for an error: its type is "error", and its body has the error's name and text as JSON."""
    name = type(error).__name__
    return Reply(json={"error": {"type": name, "message": str(error)}}, headers={"error": name}, type="error")
