"""A client for the part of RabbitMQ's management API that `leveret record` and the plugin need of a real server."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

TIMEOUT_S = 10
# The distance from the AMQP port to the management port: 15672 for 5672.
PORT_DISTANCE = 10_000


class ManagementError(Exception):
    """A refusal by the server, or the reason why it cannot be reached. `status` is the HTTP status, 0 without one."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def url_beside(amqp_url: str) -> str:
    """Return the default URL of the management API for a server's AMQP URL."""
    parts = urlsplit(amqp_url)
    server = parts.netloc.removesuffix(f":{parts.port or ''}")
    return urlunsplit(("http", f"{server}:{(parts.port or 5672) + PORT_DISTANCE}", "", "", ""))


class ManagementClient:
    """The management API of one server. Calls raise ManagementError if the server refuses or cannot be reached."""

    def __init__(self, url: str) -> None:
        """`url` has the user name and the password; both default to guest."""
        parts = urlsplit(url)
        user, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        self._authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    def ask(self, method: str, *path: str, body: object = None) -> Any:
        """Send a request and return its parsed JSON response; None for an empty one.

        `path` is what follows /api, in parts that may contain any character.
        """
        # Imported here because only a run on a real server needs HTTP.
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        target = "/".join((f"{self.url}/api", *(quote(part, safe="") for part in path)))
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": self._authorization, "Content-Type": "application/json"}
        request = Request(target, content, headers, method=method)
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                octets = answer.read()
            return json.loads(octets) if octets else None
        except HTTPError as error:
            with error:
                raise ManagementError(_reason(error.read()) or str(error), error.code) from None
        except (HTTPException, ValueError) as error:
            raise ManagementError(f"{self.url} does not answer as the management API does: {error}") from None
        except (OSError, OverflowError) as error:
            raise ManagementError(f"{self.url} cannot be reached: {getattr(error, 'reason', error)}") from None


def _reason(octets: bytes) -> str:
    try:
        answer = json.loads(octets)
    except ValueError:
        return octets.decode("utf-8", "replace").strip()
    return str(answer.get("reason") or answer.get("error") or answer) if isinstance(answer, dict) else str(answer)
