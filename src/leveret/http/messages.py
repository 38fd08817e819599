"""Requests and responses as an app sees them: plain values, without sockets and without HTTP's framing.

A body that goes on for as long as the client listens is an `EventStream`. The server opens it once the head of the
response is on its way, and closes it when the client has left or reads too slowly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qsl

from leveret.core.protocol.auth import Credentials

if TYPE_CHECKING:
    from leveret.http.stream import EventStream

JSON: Final = "application/json"


def json_of(octets: bytes) -> Any:
    """Return the value of a JSON text (RFC 8259), whose texts can be encoded as UTF-8. Raises ValueError."""
    value = json.loads(octets.decode(), parse_constant=_refuse_constant, parse_float=_finite)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Paths are raw, so that a router can distinguish `%2F` from a slash."""

    method: str
    # As sent, still percent-encoded, without the query.
    path: str
    # As sent, without the question mark.
    query: str = ""
    # By name in lower case. Values of a repeated header are joined by commas.
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    # The IP address of the client, and the one it connected to.
    peer: str = "127.0.0.1"
    local: str = "127.0.0.1"

    @property
    def parameters(self) -> dict[str, str]:
        """The decoded query. If a name is repeated, its first value counts, as in RabbitMQ."""
        pairs = parse_qsl(self.query, keep_blank_values=True, errors="surrogateescape")
        return dict(reversed(pairs))

    @property
    def credentials(self) -> Credentials | None:
        """The user and password of basic authentication (RFC 7617), or None if they are missing or malformed."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        from base64 import b64decode

        try:
            text = b64decode(token.strip(), validate=True).decode("utf-8", "surrogateescape")
        except ValueError:
            return None
        user, colon, password = text.partition(":")
        return Credentials(user, password) if colon else None


@dataclass(frozen=True, slots=True)
class Response:
    """One response. The server adds `content-length`, or chunks if the body is streamed."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | EventStream = b""

    @classmethod
    def of_json(cls, value: object, status: int = 200, *headers: tuple[str, str]) -> Response:
        """Return a response with a value as JSON."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return cls(status, (("content-type", JSON), *headers), text.encode("utf-8", "surrogateescape"))

    @classmethod
    def of_text(cls, text: str, content_type: str, status: int = 200) -> Response:
        """Return a response with a text, such as a page."""
        return cls(status, (("content-type", f"{content_type}; charset=utf-8"),), text.encode())


def refusal(status: int, error: str, reason: object, *headers: tuple[str, str]) -> Response:
    """Return an error in the form of RabbitMQ's management API: a word for programs, and a sentence."""
    return Response.of_json({"error": error, "reason": reason}, status, *headers)


class App(Protocol):
    """What answers requests. The server calls it on a thread of its own, so it may wait."""

    def handle(self, request: Request) -> Response:
        """Answer a request."""
        ...
