"""Who may ask: the address bar of a foreign page may not, and a user must be one of the broker's.

A page from elsewhere can make a browser on this machine send requests, even with a name that resolves to 127.0.0.1. Its
`Host` or `Origin` header gives it away. Users and passwords are those of the broker, read under its lock.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from leveret.core.model.operators.access import User
from leveret.core.protocol.auth import complaint_about, is_loopback
from leveret.engine.engine import Engine
from leveret.engine.urls import HOSTS
from leveret.http.messages import Request, Response, refusal

ADMINISTRATOR: Final = "administrator"
_LOCALHOST: Final = "localhost"


def refuse_foreign(request: Request, host: str) -> Response | None:
    """Return the refusal of a request that a foreign page may have sent, or None.

    `host` is the address that the broker was asked to listen on. If other machines can reach it, they may know it by
    any name, so only the origin is checked.
    """
    named = request.headers.get("host", "")
    is_local = host == _LOCALHOST or is_loopback(host)
    if is_local and not _is_of_this_machine(_name_of(named), host):
        return refusal(
            403, "foreign_host", f"Host {named!r} is not this machine; use http://{host} or http://localhost"
        )
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{named}":
        return refusal(403, "foreign_origin", f"Origin {origin!r} is another site than http://{named}; open that page")
    return None


def _is_of_this_machine(name: str, host: str) -> bool:
    # A name may look like an address: 127.0.0.1.example.org.
    is_address = name.replace(".", "").isdecimal() or ":" in name
    return name in (_LOCALHOST, host, *HOSTS) or (is_address and is_loopback(name))


def _name_of(host_header: str) -> str:
    """Return the host of a Host header, without port and brackets; "" if there is none."""
    try:
        return urlsplit(f"//{host_header}").hostname or ""
    except ValueError:
        return ""


def known_user(request: Request, engine: Engine) -> User | None:
    """Return the broker's user that a request authenticates as, or None.

    As in AMQP, a user of `loopback_users`, such as guest, must connect from this machine.
    """
    credentials = request.credentials
    if credentials is None:
        return None
    with engine.lock:
        complaint = complaint_about(engine.node, credentials, request.peer, request.local)
        return engine.node.access.users[credentials.user] if complaint is None else None


def refuse_stranger(request: Request, engine: Engine) -> Response | None:
    """Return the refusal of a request by anyone but an administrator of the broker, or None."""
    user = known_user(request, engine)
    if user is None:
        reason = "this needs a user of the broker, by basic authentication, such as guest with the password guest"
        return refusal(401, "not_authorised", reason, ("www-authenticate", 'Basic realm="leveret"'))
    if ADMINISTRATOR not in user.tags:
        reason = f"user {user.name!r} lacks the tag {ADMINISTRATOR!r}; set it with set_user_tags"
        return refusal(403, "not_authorised", reason)
    return None
