"""Asking the handlers of the management API without a socket."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from leveret import Broker
from leveret.http.management.management import Management
from leveret.http.messages import Request

GUEST = {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


class Answer(NamedTuple):
    """A status and a parsed body."""

    status: int
    value: Any


def management_of(broker: Broker) -> Management:
    """Return the management API of a broker, with or without a port for it."""
    return Management(broker._engine)


def ask(management: Management, method: str, path: str, body: object = None) -> Answer:
    """Ask as guest. `path` follows /api."""
    headers = {**GUEST, "content-type": "application/json"}
    octets = b"" if body is None else json.dumps(body).encode()
    response = management.handle(Request(method, f"/api{path}", "", headers, octets))
    assert isinstance(response.body, bytes)
    return Answer(response.status, json.loads(response.body) if response.body else None)
