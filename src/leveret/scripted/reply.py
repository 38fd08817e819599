"""What a responder answers: a reply in full, and what plain values mean as one."""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Unpack

if TYPE_CHECKING:
    from leveret.observe.keywords import BasicProperties
    from leveret.observe.message_view import MessageView

_NOTHING: Final = object()

# What a test may give as an answer; None is none at all.
Answer = object
Answerer = Callable[["MessageView"], Answer]


@dataclass(frozen=True, slots=True, init=False)
class Reply:
    """This is an answer with headers and properties of its own."""

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
        """A body may be text, or be given as `json=`, which sets the content type; keywords are basic properties."""
        values: dict[str, object] = {**properties}
        if json is not _NOTHING:
            if body:
                raise TypeError("a Reply takes a body or json=, not both")
            body = json_format.dumps(json)
            values = {"content_type": "application/json", "content_encoding": "utf-8", **values}
        elif isinstance(body, str):
            values = {"content_type": "text/plain", "content_encoding": "utf-8", **values}
        if headers is not None:
            values["headers"] = headers
        object.__setattr__(self, "body", body.encode() if isinstance(body, str) else bytes(body))
        object.__setattr__(self, "properties", values)


def reply_of(answer: Answer) -> Reply | None:
    """The reply that an answer means: bytes and text are bodies, an exception an error, anything else is JSON."""
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
    """The reply that stands for an error: of type "error", with its name and text as JSON."""
    name = type(error).__name__
    return Reply(json={"error": {"type": name, "message": str(error)}}, headers={"error": name}, type="error")
