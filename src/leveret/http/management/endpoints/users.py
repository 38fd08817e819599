"""The endpoints about users, their permissions and their limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leveret.admin.definitions_export import described_permissions, described_topic_permissions, described_user
from leveret.admin.definitions_import import TOPIC_RIGHTS, patterns_of, put, user_of
from leveret.core.compat import BEFORE_4_2, SINCE_3_13, SINCE_4_2
from leveret.core.model.operators.access import RIGHTS, USER_LIMITS
from leveret.core.model.operators.passwords import PasswordHash
from leveret.http.management.calls import CREATED, DONE, ManagementCall, bad_request, no_object, not_found
from leveret.http.management.endpoints.vhosts import one_limit
from leveret.http.management.listing import Described
from leveret.http.management.routes import describes, endpoint, lists, only

_TOPIC: Final = "/api/topic-permissions/{vhost}/{user}"


@describes("/api/whoami", "management")
def who_am_i(call: ManagementCall) -> Described:
    """Describe the user of the request."""
    return call.visible({"name": call.user.name, "tags": list(call.user.tags), "is_internal_user": True})


@lists("/api/users", "administrator", ("name",), one=("/api/users/{user}", "administrator"))
def list_users(call: ManagementCall) -> list[Described]:
    """List all users."""
    return [described_user(user) for user in call.node.access.users.values() if call.asks_for("user", user.name)]


@lists("/api/users/without-permissions", "administrator", ("name",))
def list_without_permissions(call: ManagementCall) -> list[Described]:
    """List the users who may open no virtual host."""
    access = call.node.access
    permitted = {user for _, user in access.permissions}
    return [described_user(user) for user in access.users.values() if user.name not in permitted]


@endpoint("PUT", "/api/users/{user}", "administrator")
def put_user(call: ManagementCall) -> object:
    """Add or replace a user, by password, by the hash of one, or without any."""
    body, name = call.body(), call.values["user"]
    user, given = user_of(body, name, call.compat), body.inner("permissions", {})
    permissions = {vhost: patterns_of(given.inner(vhost), RIGHTS, call.compat) for vhost in given}
    with call.acting() as node:
        is_known = put(node, user)
        node.announce("user.password.changed" if is_known else "user.created", name=name)
        node.announce("user.tags.set", name=name, tags=user.tags)
    if is_known:
        # RabbitMQ gives them to new users only.
        return DONE
    for vhost, patterns in permissions.items():
        with call.engine.looking() as node:
            if vhost not in node.vhosts:
                raise bad_request(["no_such_vhost", vhost])
        call.admin.set_permissions(name, vhost, **patterns)
    return CREATED


@endpoint("DELETE", "/api/users/{user}", "administrator")
def delete_user(call: ManagementCall) -> None:
    """Delete a user."""
    with call.engine.looking() as node:
        name = call.existing(node.access.users, "user").name
    call.admin.delete_user(name)


@endpoint("POST", "/api/users/bulk-delete", "administrator")
def delete_users(call: ManagementCall) -> None:
    """Delete several users. Those that do not exist are skipped."""
    body, users = call.body("users"), call.admin.list_users()
    given = body.get("users")
    if not isinstance(given, list):
        raise body.wrong("users", f"must be a list, not {given!r}")
    for name in given:
        # RabbitMQ 4 fails if a name is no text.
        if not isinstance(name, str) or (call.compat.refuses_missing_users and name not in users):
            raise bad_request(["no_such_user", name])
    for name in dict.fromkeys(given):
        if name in users:
            call.admin.delete_user(name)


@endpoint("GET", "/api/auth/hash_password/{password}", "administrator", SINCE_3_13, has_head=False)
def hash_password(call: ManagementCall) -> object:
    """Return a password as a user's record would hold it."""
    with call.acting() as node:
        return {"ok": PasswordHash.from_password(call.values["password"], salt=node.random_octets(4)).text}


_BY: Final = ("vhost", "user", "exchange")


@lists("/api/permissions", "administrator", _BY, one=("/api/permissions/{vhost}/{user}", "administrator"))
@lists("/api/vhosts/{vhost}/permissions", "administrator", _BY)
@lists("/api/users/{user}/permissions", "administrator", _BY)
def list_permissions(call: ManagementCall) -> list[Described]:
    """List all permissions, or those on the virtual host or of the user of the path, which must exist."""
    return _of_path(call, described_permissions(call.node))


@lists("/api/topic-permissions", "administrator", _BY)
@lists("/api/vhosts/{vhost}/topic-permissions", "administrator", _BY)
@lists("/api/users/{user}/topic-permissions", "administrator", _BY)
def list_topic_permissions(call: ManagementCall) -> list[Described]:
    """List all topic permissions, or those on the virtual host or of the user of the path, which must exist."""
    return _of_path(call, described_topic_permissions(call.node))


def _of_path(call: ManagementCall, permissions: Iterable[Described]) -> list[Described]:
    ends = {}
    if "vhost" in call.values:
        ends["vhost"] = call.vhost.name
    if "user" in call.values:
        ends["user"] = call.existing(call.node.access.users, "user").name
    return [each for each in permissions if ends.items() <= each.items()]


@lists(_TOPIC, "administrator", _BY)
@lists(f"{_TOPIC}/{{exchange}}", "administrator", _BY)
def get_topic_permissions(call: ManagementCall) -> list[Described]:
    """List which routing keys a user may use in a virtual host, by exchange."""
    permissions = list_topic_permissions(call)
    if not permissions:
        raise no_object()
    return permissions


@endpoint("PUT", "/api/permissions/{vhost}/{user}", "administrator")
def put_permission(call: ManagementCall) -> object:
    """Set what a user may do in a virtual host."""
    vhost, user = _permitted(call)
    patterns = patterns_of(call.body(*RIGHTS), RIGHTS, call.compat)
    with call.engine.looking() as node:
        is_known = node.access.may_open(user, vhost)
    call.admin.set_permissions(user, vhost, **patterns)
    return DONE if is_known else CREATED


def _permitted(call: ManagementCall) -> tuple[str, str]:
    vhost, user = call.values["vhost"], call.values["user"]
    with call.engine.looking() as node:
        if vhost not in node.vhosts or user not in node.access.users:
            raise bad_request("vhost_or_user_not_found")
    return vhost, user


@endpoint("DELETE", "/api/permissions/{vhost}/{user}", "administrator")
def delete_permission(call: ManagementCall) -> None:
    """Take away a user's access to a virtual host."""
    with call.engine.looking():
        only(list_permissions(call))
    call.admin.clear_permissions(call.values["user"], call.values["vhost"])


@endpoint("PUT", _TOPIC, "administrator")
@endpoint("PUT", f"{_TOPIC}/{{exchange}}", "administrator")
def put_topic_permission(call: ManagementCall) -> object:
    """Restrict a user to some routing keys of an exchange."""
    vhost, user = _permitted(call)
    body = call.body("exchange", *TOPIC_RIGHTS)
    exchange, patterns = body.text("exchange"), patterns_of(body, TOPIC_RIGHTS, call.compat)
    with call.engine.looking() as node:
        if exchange not in node.vhosts[vhost].exchanges and call.compat.topic_permissions_need_exchange:
            raise bad_request(["no_such_exchange", exchange])
        is_known = bool(list_topic_permissions(call))
    call.admin.set_topic_permissions(user, vhost, exchange, **patterns)
    return DONE if is_known else CREATED


@endpoint("DELETE", _TOPIC, "administrator")
@endpoint("DELETE", f"{_TOPIC}/{{exchange}}", "administrator")
def delete_topic_permission(call: ManagementCall) -> None:
    """Remove a user's restriction for one exchange, or for all of a virtual host."""
    with call.engine.looking():
        get_topic_permissions(call)
    call.admin.clear_topic_permissions(call.values["user"], call.values["vhost"], call.values.get("exchange"))


@lists("/api/user-limits", "management", ("user",), versions=BEFORE_4_2, has_head=False)
@lists("/api/user-limits", "administrator", ("user",), versions=SINCE_4_2, has_head=False)
@lists("/api/user-limits/{user}", "management", ("user",), versions=BEFORE_4_2, has_head=False)
@lists("/api/user-limits/{user}", "watched", ("user",), versions=SINCE_4_2, has_head=False)
def list_limits(call: ManagementCall) -> list[Described]:
    """List the limits of one user, or of all."""
    by_name = call.node.access.users
    if "user" not in call.values and not call.is_monitor:
        return []
    users = [call.existing(by_name, "user")] if "user" in call.values else by_name.values()
    return [{"user": it.name, "value": dict(it.limits)} for it in users if it.limits]


@endpoint("PUT", "/api/user-limits/{user}/{name}", "administrator", needs_json=True)
def put_limit(call: ManagementCall) -> None:
    """Set one limit of a user."""
    body, user = call.body("value"), call.values["user"]
    if user not in call.admin.list_users():
        raise bad_request(["no_such_user", user])
    call.admin.set_user_limits(user, one_limit(call, body, USER_LIMITS, "user-limits"))


@endpoint("DELETE", "/api/user-limits/{user}/{name}", "administrator")
def delete_limit(call: ManagementCall) -> None:
    """Remove one limit of a user."""
    with call.acting() as node:
        user = node.access.users.get(call.values["user"])
        if user is None:
            raise not_found("vhost_not_found")
        user.limits.pop(call.values["name"], None)
