"""RabbitMQ's management API, as far as a run of tests on a real server needs it."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

TIMEOUT_S = 10
# Where RabbitMQ serves it, counted from the AMQP port: 15672 beside 5672.
PORT_DISTANCE = 10_000


class ManagementError(Exception):
    """What the server answered when it refused, or why it could not be asked; `status` is HTTP's, 0 without."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def url_beside(amqp_url: str) -> str:
    """Where the management API of a server is found if nobody says otherwise."""
    parts = urlsplit(amqp_url)
    port = (parts.port or 5672) + PORT_DISTANCE
    return urlunsplit(("http", f"{parts.netloc.rpartition('@')[0]}@{parts.hostname}:{port}", "", "", ""))


class Management:
    """This asks one server; each call raises ManagementError when it cannot, or the server refuses."""

    def __init__(self, url: str) -> None:
        """The user and the password stand in the URL; guest when there are none."""
        parts = urlsplit(url)
        user, password = parts.username or "guest", parts.password or "guest"
        self._authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    def ask(self, method: str, *path: str, body: object = None) -> Any:
        """Its answer from JSON; None for an empty one. `path` is what follows /api, in parts that may hold anything."""
        # Only a run on a real server needs HTTP.
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        target = "/".join((f"{self.url}/api", *(quote(part, safe="") for part in path)))
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": self._authorization, "Content-Type": "application/json"}
        request = Request(target, content, headers, method=method)
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                octets = answer.read()
        except HTTPError as error:
            with error:
                raise ManagementError(_reason(error.read()) or str(error), error.code) from None
        except (URLError, OSError) as error:
            raise ManagementError(f"{self.url} cannot be reached: {getattr(error, 'reason', error)}") from None
        return json.loads(octets) if octets else None


def _reason(octets: bytes) -> str:
    try:
        told = json.loads(octets)
    except ValueError:
        return octets.decode("utf-8", "replace").strip()
    return str(told.get("reason") or told.get("error") or told) if isinstance(told, dict) else str(told)
