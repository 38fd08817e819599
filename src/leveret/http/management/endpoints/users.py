"""The endpoints about users, their permissions and their limits."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from leveret.admin.admin import Admin
from leveret.admin.definitions_export import described_user
from leveret.admin.vhosts_and_users import USER_LIMITS
from leveret.core.model.operators.access import RIGHTS
from leveret.core.model.operators.passwords import DEFAULT_ALGORITHM, PasswordHash
from leveret.core.model.operators.patterns import compiled
from leveret.http.management.calls import CREATED, DONE, Call, bad_request, no_object
from leveret.http.management.endpoints.vhosts import limit_fault, tags_of
from leveret.http.management.listing import Described, chosen, listed

if TYPE_CHECKING:
    from leveret.core.model.operators.access import User

_TOPIC_RIGHTS: Final = ("write", "read")


def who_am_i(call: Call) -> object:
    """Describe the user of the request."""
    found: Described = {"name": call.user.name, "tags": list(call.user.tags)}
    return {**found, "is_internal_user": True} if call.compat.names_internal_users else found


def list_users(call: Call) -> object:
    """List all users."""
    with call.looking() as node:
        found = [_described(user) for user in node.access.users.values()]
    return listed(call, found, ("name",), paged=False)


def list_without_permissions(call: Call) -> object:
    """List the users who may open no virtual host."""
    with call.looking() as node:
        permitted = {user for _, user in node.access.permissions}
        found = [_described(user) for user in node.access.users.values() if user.name not in permitted]
    return listed(call, found, ("name",), paged=False)


def _described(user: User) -> Described:
    found = described_user(user)
    return {name: found[name] for name in ("name", "password_hash", "hashing_algorithm", "tags", "limits")}


def get_user(call: Call) -> object:
    """Describe a user."""
    with call.looking() as node:
        return chosen(call, _described(call.found(node.access.users, "user")))


def put_user(call: Call) -> object:
    """Add or replace a user, by password, by the hash of one, or without any."""
    body, name = call.body(), call.values["user"]
    if "password" in body and "password_hash" in body:
        raise bad_request("both_password_and_password_hash_are_provided")
    if "tags" not in body:
        raise bad_request("tags_not_present")
    password, hashed = body.get("password"), body.get("password_hash")
    parsed = _hash_of(str(hashed), str(body.get("hashing_algorithm") or DEFAULT_ALGORITHM)) if hashed else None
    with call.acting() as node:
        is_known = name in node.access.users
        user = node.access.set_user(name, str(password) if password else None, tags_of(body["tags"]))
        user.password_hash = parsed
        node.announce("user.password.changed" if is_known else "user.created", name=name)
        node.announce("user.tags.set", name=name, tags=user.tags)
    return DONE if is_known else CREATED


def _hash_of(text: str, algorithm: str) -> PasswordHash:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        raise bad_request(["not_base64", text]) from None
    try:
        return PasswordHash.from_text(text, algorithm)
    except ValueError as error:
        raise bad_request(str(error)) from None


def delete_user(call: Call) -> object:
    """Delete a user."""
    with call.looking() as node:
        name = call.found(node.access.users, "user").name
    Admin(call.engine).delete_user(name)
    return DONE


def delete_users(call: Call) -> object:
    """Delete several users. Those that do not exist are skipped."""
    names = call.body("users")["users"]
    admin = Admin(call.engine)
    for name in names if isinstance(names, list) else ():
        # RabbitMQ 4 fails if a name is no text.
        is_missing = not isinstance(name, str) or (call.compat.refuses_missing_users and name not in admin.list_users())
        if is_missing:
            raise bad_request(["no_such_user", name])
    for name in names if isinstance(names, list) else ():
        if name in admin.list_users():
            admin.delete_user(name)
    return DONE


def hash_password(call: Call) -> object:
    """Return a password as a user's record would hold it."""
    with call.acting() as node:
        return {"ok": PasswordHash.of(call.values["password"], salt=node.random_octets(4)).text}


def _permissions(call: Call, *, user: str | None = None, vhost: str | None = None) -> list[Described]:
    found: list[Described] = [
        {"user": name, "vhost": host, "configure": it.configure, "write": it.write, "read": it.read}
        for (host, name), it in call.node.access.permissions.items()
        if user in (None, name) and vhost in (None, host)
    ]
    return found


def _topic_permissions(call: Call, *, user: str | None = None, vhost: str | None = None) -> list[Described]:
    found: list[Described] = [
        {"user": name, "vhost": host, "exchange": exchange, "write": it.write, "read": it.read}
        for (host, name), by_exchange in call.node.access.topic_permissions.items()
        for exchange, it in by_exchange.items()
        if user in (None, name) and vhost in (None, host)
    ]
    return found


_BY: Final = ("vhost", "user", "exchange")


def list_permissions(call: Call) -> object:
    """List all permissions, or those on the virtual host or of the user of the path."""
    with call.looking():
        found = _permissions(call, **_ends(call))
    return listed(call, found, _BY, paged=False)


def list_topic_permissions(call: Call) -> object:
    """List all topic permissions, or those on the virtual host or of the user of the path."""
    with call.looking():
        found = _topic_permissions(call, **_ends(call))
    return listed(call, found, _BY, paged=False)


def _ends(call: Call) -> dict[str, str]:
    """Return the user and the virtual host of the path, which must exist."""
    ends = {}
    if "vhost" in call.values:
        ends["vhost"] = call.vhost.name
    if "user" in call.values:
        ends["user"] = call.found(call.node.access.users, "user").name
    return ends


def get_permission(call: Call) -> object:
    """Describe what a user may do in a virtual host."""
    with call.looking():
        found = _permissions(call, **_ends(call))
        if not found:
            raise no_object()
        return chosen(call, found[0])


def get_topic_permissions(call: Call) -> object:
    """List which routing keys a user may use in a virtual host, by exchange."""
    with call.looking():
        found = _topic_permissions(call, **_ends(call))
        if not found:
            raise no_object()
    return listed(call, found, _BY, paged=False)


def put_permission(call: Call) -> object:
    """Set what a user may do in a virtual host."""
    vhost, user = _permitted(call)
    body = call.body(*RIGHTS)
    patterns = {name: _pattern(body[name]) for name in RIGHTS}
    with call.looking() as node:
        is_known = node.access.may_open(user, vhost)
    Admin(call.engine).set_permissions(user, vhost, **patterns)
    return DONE if is_known else CREATED


def _permitted(call: Call) -> tuple[str, str]:
    vhost, user = call.values["vhost"], call.values["user"]
    with call.looking() as node:
        if vhost not in node.vhosts or user not in node.access.users:
            raise bad_request("vhost_or_user_not_found")
    return vhost, user


def _pattern(given: object) -> str:
    pattern = str(given)
    try:
        compiled(pattern)
    except re.error as error:
        raise bad_request(["invalid_regexp", pattern, [error.msg, error.pos]]) from None
    return pattern


def delete_permission(call: Call) -> object:
    """Take away a user's access to a virtual host."""
    with call.looking():
        if not _permissions(call, **_ends(call)):
            raise no_object()
    Admin(call.engine).clear_permissions(call.values["user"], call.values["vhost"])
    return DONE


def put_topic_permission(call: Call) -> object:
    """Restrict a user to some routing keys of an exchange."""
    vhost, user = _permitted(call)
    body = call.body("exchange", *_TOPIC_RIGHTS)
    exchange, patterns = str(body["exchange"]), {name: _pattern(body[name]) for name in _TOPIC_RIGHTS}
    with call.looking() as node:
        if exchange not in node.vhosts[vhost].exchanges and call.compat.topic_permissions_need_exchange:
            raise bad_request(["no_such_exchange", exchange])
        is_known = bool(_topic_permissions(call, user=user, vhost=vhost))
    Admin(call.engine).set_topic_permissions(user, vhost, exchange, **patterns)
    return DONE if is_known else CREATED


def delete_topic_permission(call: Call) -> object:
    """Remove a user's restriction for one exchange, or for all of a virtual host."""
    with call.looking():
        if not _topic_permissions(call, **_ends(call)):
            raise no_object()
    Admin(call.engine).clear_topic_permissions(call.values["user"], call.values["vhost"], call.values.get("exchange"))
    return DONE


def list_limits(call: Call) -> object:
    """List the limits of one user, or of all."""
    with call.looking() as node:
        if "user" not in call.values and not call.is_tagged("administrator", "monitoring"):
            return []
        users: Iterable[User] = node.access.users.values()
        if "user" in call.values:
            users = [call.found(node.access.users, "user")]
        found: list[Described] = [{"user": it.name, "value": dict(it.limits)} for it in users if it.limits]
    return listed(call, found, ("user",), paged=False)


def put_limit(call: Call) -> object:
    """Set one limit of a user."""
    value, name, user = call.body("value")["value"], call.values["name"], call.values["user"]
    limits: Mapping[str, object] = {name: value}
    if user not in Admin(call.engine).list_users():
        raise bad_request(["no_such_user", user])
    fault = limit_fault(limits, USER_LIMITS, "user-limits")
    if fault:
        raise bad_request(fault)
    Admin(call.engine).set_user_limits(user, limits)  # type: ignore[arg-type]
    return DONE


def delete_limit(call: Call) -> object:
    """Remove one limit of a user."""
    with call.acting() as node:
        call.found(node.access.users, "user").limits.pop(call.values["name"], None)
    return DONE
