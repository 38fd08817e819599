"""The RabbitMQ server of a run with `--leveret-real`, its names, and how a test that it cannot judge is skipped.

The names of a run have its time in them. A run that is killed leaves its virtual hosts, and a later one deletes them
after a day, unless something is still connected.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from socket import create_connection
from typing import Final, NoReturn
from urllib.parse import unquote, urlsplit

import pytest

from leveret.clocks import unpatched
from leveret.recording.management import TIMEOUT_S, ManagementClient, ManagementError, url_beside

# How the reason of a skip begins.
NEEDS: Final = "a real RabbitMQ cannot run this test: "
# What a killed run leaves: its time in UTC, then what `ServerNames` adds.
_LEFT: Final = re.compile(r"(leveret-(\d{8}T\d{4})-[0-9a-f]{12})(\..*)?", re.DOTALL)
_KEPT_S: Final = 24 * 60 * 60
_TIME: Final = unpatched("time")


class Server:
    """The RabbitMQ server of a run."""

    def __init__(self, amqp_url: str, management_url: str | None, wait_s: float) -> None:
        """Raises OSError or UnicodeError if it cannot be reached, ManagementError if this user cannot administer it."""
        self.parts = urlsplit(amqp_url)
        self.address = (str(self.parts.hostname), self.parts.port or 5672)
        create_connection(self.address, TIMEOUT_S).close()
        self.management = ManagementClient(management_url or url_beside(amqp_url))
        self.user = unquote(self.parts.username or "guest")
        self.password = unquote(self.parts.password or "guest")
        self.wait_s = wait_s
        # Only an administrator may see the users.
        self.management.ask("GET", "users")
        overview = self.management.ask("GET", "overview")
        if not isinstance(overview, dict) or "rabbitmq_version" not in overview:
            raise ManagementError(f"{self.management.url} is no RabbitMQ: its overview has no rabbitmq_version")
        self.version = str(overview["rabbitmq_version"])
        self.removed: Final = self._remove_leftovers()

    def _remove_leftovers(self) -> list[str]:
        """Delete the virtual hosts and users of runs that were killed more than a day ago, and return their names."""
        before, in_use, removed = _stamp(_KEPT_S), set[str](), list[str]()
        for kind in ("vhosts", "users"):
            for name in [str(it["name"]) for it in self.management.ask("GET", kind)]:
                left = _LEFT.fullmatch(name)
                if left is None or left[2] >= before or left[1] in in_use:
                    continue
                # Another run may have been quicker.
                with suppress(ManagementError):
                    if kind == "vhosts" and self.management.ask("GET", kind, name, "connections"):
                        in_use.add(left[1])
                        continue
                    self.management.ask("DELETE", kind, name)
                    removed.append(name)
        return removed


def new_base() -> str:
    """Return the name of a new virtual host, with the time in it."""
    return f"leveret-{_stamp(0)}-{uuid.uuid4().hex[:12]}"


def _stamp(seconds: int) -> str:
    """Return the time so many seconds ago, also while a test has frozen the time."""
    return str(_TIME.strftime("%Y%m%dT%H%M", _TIME.gmtime(_TIME.time() - seconds)))


class ServerNames:
    """The names that virtual hosts and users of a test have on the server."""

    def __init__(self, base: str, server: Server, users: Callable[[], dict[str, str | None]]) -> None:
        """`base` is the name of the virtual host "/" there; the others get it in front."""
        self.base = base
        self._server = server
        self._users = users

    def vhost(self, name: str) -> str:
        """Return the name on the server of a virtual host of the test."""
        return self.base if name == "/" else f"{self.base}.{name}"

    def own_vhost(self, name: str) -> str:
        """Return the name in the test of a virtual host that a client asks for."""
        return "/" if name in ("/", self.base) else name.removeprefix(f"{self.base}.")

    def user(self, name: str) -> str:
        """Return the name on the server of a user of the test."""
        return self._server.user if name == "guest" else f"{self.base}.{name}"

    def login(self, user: str, password: str | None) -> tuple[str, str]:
        """Return user and password on the server for those of a client."""
        users = self._users()
        if user == "guest" and password == users.get("guest"):
            return self._server.user, self._server.password
        return (self.user(user) if user != "guest" and user in users else user), password or ""

    def own_text(self, text: str) -> str:
        """Return a text of the server with the names of the test."""
        return text.replace(f"{self.base}.", "").replace(self.base, "/")


def skip(needed: str) -> NoReturn:
    """Skip the test, and say what it needs."""
    pytest.skip(f"{NEEDS}it needs {needed}")
