"""The commands for what operators set: virtual hosts, users, permissions, limits, policies and parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from leveret.admin.admin import set_policy
from leveret.admin.definitions_export import (
    described_metadata,
    described_parameters,
    described_permissions,
    described_topic_permissions,
)
from leveret.admin.definitions_import import policy_of
from leveret.admin.values import Item
from leveret.core.model.node import Node
from leveret.core.model.operators.access import RIGHTS, USER_LIMITS, VHOST_LIMITS
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.operators.patterns import name_pattern
from leveret.core.model.operators.policy import PolicyInvalid
from leveret.http.rabbitmqctl.call import (
    INVALID,
    NO_GRANTEE,
    NO_SUCH_USER,
    NO_SUCH_VHOST,
    Action,
    Call,
    compact,
    nothing,
)
from leveret.http.rabbitmqctl.line import DATA, SOFTWARE, UNAVAILABLE, Stopped, comma_separated
from leveret.http.rabbitmqctl.printing import Result, Row


def _vhost_rows(call: Call) -> Iterator[Row]:
    for vhost in call.node.vhosts.values():
        shown = {"name": vhost.name, "tracing": vhost.firehose is not None, **described_metadata(vhost)}
        shown |= {"tags": sorted(vhost.tags), "protected_from_deletion": bool(vhost.is_protected)}
        yield {**shown, "cluster_state": {NODE_NAME: "running"}, "metadata": described_metadata(vhost)}


def _add_vhost(call: Call) -> None:
    switches = call.line.switches
    kind = switches.get("--default-queue-type", "classic")
    tags, description = comma_separated(switches.get("--tags", "")), switches.get("--description", "")
    call.admin.add_vhost(call.words[0], default_queue_type=kind, description=description, tags=tags)


def _update_vhost(call: Call) -> None:
    name, switches = call.vhost(name=call.words[0]), call.line.switches
    tags = comma_separated(switches["--tags"]) if "--tags" in switches else None
    call.admin.update_vhost_metadata(
        name,
        default_queue_type=switches.get("--default-queue-type"),
        description=switches.get("--description"),
        tags=tags,
    )
    if "--protected-from-deletion" in switches:
        _protect(call, is_protected=call.line.has("--protected-from-deletion"))


def _protect(call: Call, *, is_protected: bool) -> None:
    call.node.vhosts[call.vhost(name=call.words[0])].is_protected = is_protected


def _delete_vhost(call: Call) -> None:
    name = call.vhost(name=call.words[0])
    if call.node.vhosts[name].is_protected:
        text = "it is protected from deletion. To lift the protection, inspect and update its metadata"
        raise Stopped(DATA, f"Error:\nCannot delete this virtual host: {text}")
    call.admin.delete_vhost(name)


def _trace(call: Call, *, is_on: bool) -> str:
    if call.vhost_name in call.node.vhosts:
        (call.admin.trace_on if is_on else call.admin.trace_off)(call.vhost_name)
    return f"Trace {'enabled' if is_on else 'disabled'} for vhost {call.vhost_name}"


def _set_vhost_limits(call: Call) -> None:
    name = call.vhost()
    call.admin.set_vhost_limits(name, call.limits(call.words[0], VHOST_LIMITS, "limits", INVALID))


def _list_vhost_limits(call: Call) -> Result:
    if call.line.has("--global"):
        limited = [vhost for vhost in call.node.vhosts.values() if vhost.limits]
        return [{"vhost": vhost.name, "limits": compact(vhost.limits)} for vhost in limited] or ""
    limits = call.node.vhosts[call.vhost()].limits
    return compact(limits) if limits else ""


def _clear_vhost_limits(call: Call) -> None:
    vhost = call.node.vhosts.get(call.vhost_name)
    if vhost is None or not vhost.limits:
        raise Stopped(UNAVAILABLE, "Error:\nParameter does not exist")
    call.admin.clear_vhost_limits(vhost.name)


def _add_user(call: Call) -> str | None:
    name, *password = call.words
    if not password:
        raise Stopped(DATA, "Error:\nPassword is not provided via argument or stdin", "Password: \n")
    if name in call.node.access.users:
        raise Stopped(SOFTWARE, f'Error:\nUser "{name}" already exists')
    call.admin.add_user(name, password[0])
    if call.line.has("--quiet", "--silent"):
        return None
    hint = "See 'rabbitmqctl help set_permissions' to learn more."
    return f"Done. Don't forget to grant the user permissions to some virtual hosts! {hint}"


def _delete_user(call: Call) -> None:
    if call.words[0] in call.node.access.users:
        call.admin.delete_user(call.words[0])


def _authenticate(call: Call) -> str:
    name, password = call.words
    text = "- invalid credentials" if password else _BLANK
    if not password or call.node.access.authenticate(name, password) is None:
        raise Stopped(DATA, f"Error:\nError: failed to authenticate user \"{name}\"\nuser '{name}' {text}")
    return "Success"


_BLANK: Final = (
    "attempted to log in with a blank password, which is prohibited by the internal authN backend. To use TLS/x509 "
    "certificate-based authentication, see the rabbitmq_auth_mechanism_ssl plugin and configure the client to use the "
    "EXTERNAL authentication mechanism. Alternatively change the password for the user to be non-blank."
)


def _set_user_limits(call: Call) -> None:
    limits = call.limits(call.words[1], USER_LIMITS, "user-limits")
    call.admin.set_user_limits(call.user(*NO_SUCH_USER), limits)


def _list_user_limits(call: Call) -> Result:
    users, name = call.node.access.users, call.line.switches.get("--user", "guest")
    if call.line.has("--global"):
        return [{"user": it.name, "limits": compact(it.limits)} for it in users.values() if it.limits] or ""
    if name not in users:
        raise Stopped(NO_SUCH_USER[0], NO_SUCH_USER[1].format(name))
    return compact(users[name].limits)


def _set_permissions(call: Call) -> None:
    _grant(call, [call.vhost(*NO_SUCH_VHOST)])


def _grant(call: Call, vhosts: Iterable[str]) -> None:
    _, configure, write, read = call.words
    user = call.user(*NO_GRANTEE)
    for right in (configure, write, read):
        try:
            name_pattern(right, is_pcre2=call.engine.compat.has_pcre2)
        except re.error as error:
            fault = f'{{:invalid_regexp, ~c"{right}", {{~c"{error.msg}", {error.pos}}}}}'
            raise Stopped(UNAVAILABLE, f"Error:\n{fault}") from None
    for vhost in vhosts:
        call.admin.set_permissions(user, vhost, configure=configure, write=write, read=read)


def _permissions(rows: Callable[[Node], Iterator[Mapping[str, object]]], *columns: str, of_user: bool) -> Action:
    """Return the action that lists the permissions of a user, or in a virtual host."""

    def act(call: Call) -> Result:
        key, name = ("user", call.user(*NO_SUCH_USER)) if of_user else ("vhost", call.vhost())
        return [{column: row[column] for column in columns} for row in rows(call.node) if row[key] == name]

    return act


def _clear_permissions(call: Call, *, are_of_topics: bool) -> None:
    user, vhost = call.words[0], call.vhost_name
    if user in call.node.access.users and vhost in call.node.vhosts:
        if are_of_topics:
            call.admin.clear_topic_permissions(user, vhost, *call.words[1:])
        else:
            call.admin.clear_permissions(user, vhost)


def _set_topic_permissions(call: Call) -> None:
    _, exchange, write, read = call.words
    vhost = call.vhost(*NO_SUCH_VHOST)
    call.admin.set_topic_permissions(call.user(*NO_GRANTEE), vhost, exchange, write=write, read=read)


def _policies(call: Call, *, are_operators: bool) -> list[Row]:
    policies = call.node.vhosts[call.vhost()].policies
    return [
        {"vhost": call.vhost_name, "name": it.name, **it.described(), "definition": compact(it.definition)}
        for it in (policies.operator if are_operators else policies.user).by_name.values()
    ]


def _set_policy(call: Call, *, are_operators: bool) -> None:
    name, pattern, text = call.words
    vhost, switches = call.vhost(), call.line.switches
    value = {
        "pattern": pattern,
        "definition": call.mapping(text),
        "priority": int(switches.get("--priority", 0)),
        "apply-to": switches.get("--apply-to", "all"),
    }
    try:
        with call.engine.acting() as node:
            set_policy(node, vhost, policy_of(name, Item(value)), is_operator=are_operators)
    except PolicyInvalid as error:
        raise Stopped(UNAVAILABLE, f"Error:\n{INVALID}{error}\n") from None


def _clear_policy(call: Call, *, are_operators: bool) -> None:
    vhost = call.node.vhosts.get(call.vhost_name)
    known = () if vhost is None else (vhost.policies.operator if are_operators else vhost.policies.user).by_name
    if call.words[0] not in known:
        raise Stopped(UNAVAILABLE, "Error:\nParameter does not exist")
    clear = call.admin.clear_operator_policy if are_operators else call.admin.clear_policy
    clear(call.words[0], vhost=call.vhost_name)


def _parameter_rows(call: Call) -> list[Row]:
    vhost = call.node.vhosts[call.vhost()]
    return [
        {"component": row["component"], "name": row["name"], "value": compact(row["value"])}
        for row in described_parameters(vhost)
    ]


def _set_parameter(call: Call) -> None:
    component = call.words[0]
    call.vhost()
    if component == "policy":
        raise Stopped(UNAVAILABLE, "Error:\npolicies may not be set using this method")
    raise Stopped(UNAVAILABLE, f"Error:\n{INVALID}component {component} not found\n")


def _clear_parameter(call: Call) -> None:
    call.vhost()
    raise Stopped(UNAVAILABLE, "Error:\nParameter does not exist")


def _clear_global(call: Call) -> None:
    if call.words[0] not in call.node.global_parameters:
        raise Stopped(UNAVAILABLE, "Error:\nParameter does not exist")
    with call.engine.acting() as node:
        del node.global_parameters[call.words[0]]


def _set_global(call: Call) -> None:
    value = call.mapping(call.words[1])
    with call.engine.acting() as node:
        node.set_global_parameter(call.words[0], value)


def _set_tags(call: Call) -> None:
    call.admin.set_user_tags(call.user(), *call.words[1:])


def _set_vhost_tags(call: Call) -> None:
    name, *tags = call.words
    call.admin.update_vhost_metadata(call.vhost(DATA, 'Error:\nVirtual host "{}" does not exist', name), tags=tags)


OPERATORS: Final[Mapping[str, Action]] = {
    "list_vhosts": lambda call: list(_vhost_rows(call)),
    "add_vhost": _add_vhost,
    "update_vhost_metadata": _update_vhost,
    "set_vhost_tags": _set_vhost_tags,
    "enable_vhost_deletion_protection": partial(_protect, is_protected=True),
    "disable_vhost_deletion_protection": partial(_protect, is_protected=False),
    "delete_vhost": _delete_vhost,
    "trace_on": partial(_trace, is_on=True),
    "trace_off": partial(_trace, is_on=False),
    "set_vhost_limits": _set_vhost_limits,
    "list_vhost_limits": _list_vhost_limits,
    "clear_vhost_limits": _clear_vhost_limits,
    "restart_vhost": lambda call: f"Vhost '{call.vhost()}' is already running on node '{NODE_NAME}'",
    "reconcile_vhosts": nothing,
    "list_users": lambda call: [{"user": it.name, "tags": list(it.tags)} for it in call.node.access.users.values()],
    "add_user": _add_user,
    "delete_user": _delete_user,
    "change_password": lambda call: call.admin.change_password(call.user(), call.words[1]),
    "clear_password": lambda call: call.admin.clear_password(call.user(*NO_SUCH_USER)),
    "authenticate_user": _authenticate,
    "set_user_tags": _set_tags,
    "set_user_limits": _set_user_limits,
    "list_user_limits": _list_user_limits,
    "clear_user_limits": lambda call: call.admin.clear_user_limits(call.user(*NO_SUCH_USER), call.words[1]),
    "set_permissions": _set_permissions,
    "set_permissions_globally": lambda call: _grant(call, list(call.node.vhosts)),
    "clear_permissions": partial(_clear_permissions, are_of_topics=False),
    "list_permissions": _permissions(described_permissions, "user", *RIGHTS, of_user=False),
    "list_user_permissions": _permissions(described_permissions, "vhost", *RIGHTS, of_user=True),
    "set_topic_permissions": _set_topic_permissions,
    "clear_topic_permissions": partial(_clear_permissions, are_of_topics=True),
    "list_topic_permissions": _permissions(
        described_topic_permissions, "user", "exchange", "write", "read", of_user=False
    ),
    "list_user_topic_permissions": _permissions(
        described_topic_permissions, "vhost", "exchange", "write", "read", of_user=True
    ),
    "set_policy": partial(_set_policy, are_operators=False),
    "clear_policy": partial(_clear_policy, are_operators=False),
    "list_policies": partial(_policies, are_operators=False),
    "set_operator_policy": partial(_set_policy, are_operators=True),
    "clear_operator_policy": partial(_clear_policy, are_operators=True),
    "list_operator_policies": partial(_policies, are_operators=True),
    "set_parameter": _set_parameter,
    "clear_parameter": _clear_parameter,
    "list_parameters": _parameter_rows,
    "set_global_parameter": _set_global,
    "clear_global_parameter": _clear_global,
    "list_global_parameters": lambda call: [
        {"name": name, "value": compact(value)} for name, value in call.node.global_parameters.items()
    ],
    "set_cluster_name": lambda call: call.node.set_global_parameter("cluster_name", call.words[0]),
}
