"""HTTP clients for the tests: one that speaks properly, and raw sockets for those that do not."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from leveret import Broker

GUEST = "Basic Z3Vlc3Q6Z3Vlc3Q="


class Answer:
    """A response that was read to its end."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def connection(broker: Broker) -> HTTPConnection:
    parts = urlsplit(broker.management_url)
    return HTTPConnection(parts.hostname, parts.port, timeout=60)


def ask(
    broker: Broker,
    method: str,
    path: str,
    value: object = None,
    *,
    authorization: str | None = GUEST,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send a request, with a value as JSON if one is given, and return the answer."""
    given = dict(headers or {})
    if authorization is not None:
        given["authorization"] = authorization
    body = None if value is None else json.dumps(value)
    http = connection(broker)
    try:
        http.request(method, path, body, given)
        return Answer(http.getresponse())
    finally:
        http.close()


def raw(broker: Broker) -> socket.socket:
    parts = urlsplit(broker.management_url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def read_to_end(client: socket.socket) -> bytes:
    received = []
    while data := client.recv(65536):
        received.append(data)
    return b"".join(received)
