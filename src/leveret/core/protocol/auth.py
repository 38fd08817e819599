"""Login mechanisms: who a client says it is, and the proof it gives.

A mechanism reads a response and returns a user name and a password, or None for a response it cannot read. The node
checks the password. None of them asks for a second response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.core.wire.errors import WireError
from leveret.core.wire.values import Table

if TYPE_CHECKING:
    from leveret.core.model.node import Node

# No password that a client can send, nor that a test would choose.
_WRONG_PASSWORD: Final = "\ud800"


class Credentials(NamedTuple):
    """What a client claims. `password` is None if the mechanism asks for none."""

    user: str
    password: str | None


def plain(response: bytes) -> Credentials | None:
    """Read PLAIN (RFC 4616) with an empty authorisation identity.

    RabbitMQ treats any other identity as malformed, and a password that contains a NUL.
    """
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        return None
    return Credentials(_text(parts[1]), _text(parts[2]))


def amqplain(response: bytes) -> Credentials | None:
    """Read AMQPLAIN: a field table without its length, with LOGIN and PASSWORD as long strings.

    A password of another type is no malformed response, but a wrong password.
    """
    try:
        table = Table.decode(response)
    except WireError:
        return None
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None or not isinstance(login.value, bytes):
        return None
    text = _text(password.value) if isinstance(password.value, bytes) else _WRONG_PASSWORD
    return Credentials(_text(login.value), text)


def anonymous(_response: bytes) -> Credentials:
    """Accept ANONYMOUS: any response stands for the configured anonymous user."""
    return Credentials("guest", None)


def complaint_about(node: Node, credentials: Credentials, peer: str, local: str) -> str | None:
    """Return what RabbitMQ logs about a login between two addresses that it refuses; None if the login is right."""
    user, password = credentials
    is_known = user in node.access.users if password is None else node.access.authenticate(user, password) is not None
    if not is_known:
        return "- invalid credentials"
    end = peer if node.compat.loopback_users_need_loopback_peer else local
    if user in node.settings.loopback_users and not is_loopback(end):
        return "can only connect via localhost"
    return None


def is_loopback(address: str) -> bool:
    """Return whether an IP address is this machine's own: 127.0.0.0/8 or ::1."""
    return address.removeprefix("::ffff:").startswith("127.") or address == "::1"


MECHANISMS: Final[dict[str, Callable[[bytes], Credentials | None]]] = {
    "PLAIN": plain,
    "AMQPLAIN": amqplain,
    "ANONYMOUS": anonymous,
}


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
