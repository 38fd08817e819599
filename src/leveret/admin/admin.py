"""The operator: what rabbitmqctl does to a running broker, under the names of its commands.

Virtual hosts, users and what each may do, policies, tracing, alarms, maintenance, definitions, and closing the
connections of clients. Clients see what RabbitMQ's clients would see: a new password counts at the next login, a new
permission at the next check. An operator's own mistake raises BrokerError at the call. Connections are looked up behind
the barrier, so a client that has just connected is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, get_args

from leveret.core.model.errors import ConnectionForced
from leveret.core.model.node import Node
from leveret.core.model.operators.access import USER_LIMITS, VHOST_LIMITS, User
from leveret.core.model.operators.patterns import is_too_long, name_pattern
from leveret.core.model.operators.policy import Policies, Policy, PolicyInvalid
from leveret.core.model.queues.queue_types import QUEUE_TYPES
from leveret.engine.engine import Engine
from leveret.errors import BrokerError, expected, unknown
from leveret.observe.assertions.keywords import Alarm, ApplyTo
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.views.names import find_vhost
from leveret.wording import texts_in

if TYPE_CHECKING:
    from pathlib import Path

    from leveret.core.model.ports import ConnectionPort
    from leveret.core.model.vhost import VirtualHost

_CLOSED: Final = "Closed via leveret"
_MAINTENANCE: Final = "Node was put into maintenance mode"
_RESOURCES: Final = get_args(Alarm)


@checks_calls
class Admin(Hinting):
    """The type of `broker.admin`: what an operator does to a running broker."""

    _called = "broker.admin"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _acting(self, *, user: str | None = None, vhost: str | None = None) -> Iterator[Node]:
        """Change the node, with this user and virtual host, once what clients had sent before is handled.

        Raises BrokerError or NotDeclaredError if one of them does not exist.
        """
        self._engine.sync()
        with self._engine.acting() as node:
            if user is not None:
                _find_user(node, user)
            if vhost is not None:
                find_vhost(node, vhost)
            yield node

    def list_vhosts(self) -> list[str]:
        """Return the names of the virtual hosts."""
        with self._engine.looking() as node:
            return list(node.vhosts)

    def add_vhost(
        self, name: str, *, default_queue_type: str = "classic", description: str = "", tags: str | Iterable[str] = ()
    ) -> None:
        """Add a virtual host, or leave an existing one alone. No user may use it until `set_permissions`."""
        _refuse_unknown("queue type", default_queue_type, QUEUE_TYPES)
        with self._acting() as node:
            if name not in node.vhosts:
                node.add_vhost(
                    name, default_queue_type=default_queue_type, description=description, tags=texts_in(tags)
                )

    def update_vhost_metadata(
        self,
        name: str,
        *,
        default_queue_type: str | None = None,
        description: str | None = None,
        tags: str | Iterable[str] | None = None,
    ) -> None:
        """Change what is given: description, tags, or the type of queues declared from now on without a type."""
        with self._acting() as node:
            vhost = find_vhost(node, name)
            if default_queue_type is not None:
                _refuse_unknown("queue type", default_queue_type, QUEUE_TYPES)
                vhost.default_queue_type = default_queue_type
            if description is not None:
                vhost.description = description
            if tags is not None:
                vhost.tags = texts_in(tags)
            announce_metadata(vhost)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with all it holds, and close its connections."""
        with self._acting(vhost=name) as node:
            node.delete_vhost(name)

    def set_vhost_limits(self, vhost: str, limits: Mapping[str, int]) -> None:
        """Set limits of a virtual host:

        `max-connections`, `max-queues`. A negative number means no limit; 0 allows none.
        """
        with self._acting() as node:
            host = find_vhost(node, vhost)
            _check_limits(limits, VHOST_LIMITS)
            host.limits.update(limits)
            parameter = {"component": "vhost-limits", "name": "limits", "vhost": vhost}
            node.announce("parameter.set", **parameter, value=host.limits)
            node.announce("vhost.limits.set", name="limits", vhost=vhost, **host.limits)

    def clear_vhost_limits(self, vhost: str) -> None:
        """Remove the limits of a virtual host."""
        with self._acting() as node:
            find_vhost(node, vhost).limits.clear()
            node.announce("parameter.cleared", component="vhost-limits", name="limits", vhost=vhost)
            node.announce("vhost.limits.cleared", name="limits", vhost=vhost)

    def list_users(self) -> dict[str, tuple[str, ...]]:
        """Return the tags of all users, by name."""
        with self._engine.looking() as node:
            return {user.name: user.tags for user in node.access.users.values()}

    def add_user(self, name: str, password: str, *, tags: str | Iterable[str] = ()) -> None:
        """Add a user, who may do nothing until `set_permissions`. Raises BrokerError if the user exists."""
        with self._acting() as node:
            if name in node.access.users:
                raise BrokerError(f"user {name!r} already exists; change it with change_password or set_user_tags")
            node.access.set_user(name, password, texts_in(tags))
            node.announce("user.created", name=name)
            if tags:
                node.announce("user.tags.set", name=name, tags=texts_in(tags))

    def delete_user(self, name: str) -> None:
        """Delete a user, and close their connections."""
        with self._acting(user=name) as node:
            node.access.delete_user(name)
            node.announce("user.deleted", name=name)
            for connection in node.connections_of(user=name):
                connection.refuse(0, ConnectionForced(f"user '{name}' is deleted"))

    def change_password(self, name: str, password: str) -> None:
        """Change the password of a user. Open connections stay."""
        with self._acting() as node:
            node.access.set_user(name, password, _find_user(node, name).tags)
            node.announce("user.password.changed", name=name)

    def clear_password(self, name: str) -> None:
        """Remove a user's password, so that no login with one succeeds. Open connections stay."""
        with self._acting() as node:
            node.access.set_user(name, None, _find_user(node, name).tags)
            node.announce("user.password.cleared", name=name)

    def set_user_tags(self, name: str, *tags: str) -> None:
        """Replace the tags of a user. The tag `impersonator` lets the user publish under another user-id."""
        with self._acting(user=name) as node:
            node.access.set_tags(name, tags)
            node.announce("user.tags.set", name=name, tags=tags)

    def set_user_limits(self, user: str, limits: Mapping[str, int]) -> None:
        """Set limits of a user: `max-connections`, `max-channels`. A negative number means no limit; 0 allows none."""
        with self._acting() as node:
            limited = _find_user(node, user)
            _check_limits(limits, USER_LIMITS)
            limited.limits.update(limits)
            node.announce("user.limits.set", name="limits", username=user, **limited.limits)

    def clear_user_limits(self, user: str, limit: str = "all") -> None:
        """Remove one limit of a user, or all."""
        with self._acting() as node:
            limits = _find_user(node, user).limits
            if limit == "all":
                limits.clear()
            else:
                _refuse_unknown("limit", limit, USER_LIMITS)
                limits.pop(limit, None)
            node.announce("user.limits.cleared", name="limits", username=user)

    def set_permissions(
        self, user: str, vhost: str = "/", *, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        """Give a user access to a virtual host, with a regular expression of names for each of the three rights.

        A right that you leave out is granted for every name.
        """
        with self._acting(user=user, vhost=vhost) as node:
            _check_patterns(node, configure=configure, write=write, read=read)
            node.access.set_permission(vhost, user, configure=configure, write=write, read=read)
            node.announce("permission.created", user=user, vhost=vhost, configure=configure, write=write, read=read)

    def clear_permissions(self, user: str, vhost: str = "/") -> None:
        """Remove a user's access to a virtual host. Open connections stay, but have no rights."""
        with self._acting(user=user, vhost=vhost) as node:
            if node.access.may_open(user, vhost):
                node.access.clear_permission(vhost, user)
                node.announce("permission.deleted", user=user, vhost=vhost)

    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, *, write: str = ".*", read: str = ".*"
    ) -> None:
        """Restrict a user to some routing keys of a topic exchange."""
        with self._acting(user=user, vhost=vhost) as node:
            _check_patterns(node, write=write, read=read)
            node.access.set_topic_permission(vhost, user, exchange, write=write, read=read)
            node.announce("topic.permission.created", user=user, vhost=vhost, exchange=exchange, write=write, read=read)

    def clear_topic_permissions(self, user: str, vhost: str = "/", exchange: str | None = None) -> None:
        """Remove the restriction for one exchange, or for all exchanges of the virtual host."""
        with self._acting(user=user, vhost=vhost) as node:
            node.access.clear_topic_permission(vhost, user, exchange)
            node.announce("topic.permission.deleted", user=user, vhost=vhost)

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: Mapping[str, object],
        *,
        vhost: str = "/",
        priority: int = 0,
        apply_to: ApplyTo = "all",
    ) -> None:
        """Set a policy. Raises BrokerError, with RabbitMQ's text, for a policy that RabbitMQ refuses."""
        policy = Policy(name, pattern, definition, priority=priority, apply_to=apply_to)
        with self._changing_policies(vhost) as (node, _):
            set_policy(node, vhost, policy)

    def clear_policy(self, name: str, *, vhost: str = "/") -> None:
        """Remove a policy. A missing one is no error."""
        with self._changing_policies(vhost) as (node, policies):
            if name in policies.user.by_name:
                policies.user.clear(name)
            node.announce("policy.cleared", name=name, vhost=vhost)

    def set_operator_policy(
        self,
        name: str,
        pattern: str,
        definition: Mapping[str, object],
        *,
        vhost: str = "/",
        priority: int = 0,
        apply_to: ApplyTo = "all",
    ) -> None:
        """Set an operator policy. Raises BrokerError, with RabbitMQ's text, for a policy that RabbitMQ refuses."""
        policy = Policy(name, pattern, definition, priority=priority, apply_to=apply_to)
        with self._changing_policies(vhost) as (node, _):
            set_policy(node, vhost, policy, is_operator=True)

    def clear_operator_policy(self, name: str, *, vhost: str = "/") -> None:
        """Remove an operator policy. A missing one is no error."""
        with self._changing_policies(vhost) as (node, policies):
            if name in policies.operator.by_name:
                policies.operator.clear(name)
            node.announce("parameter.cleared", component="operator_policy", name=name, vhost=vhost)
            node.announce("operator.policy.cleared", name=name, vhost=vhost)

    @contextmanager
    def _changing_policies(self, vhost: str) -> Iterator[tuple[Node, Policies]]:
        with self._acting() as node:
            host = find_vhost(node, vhost)
            try:
                yield node, host.policies
            except PolicyInvalid as error:
                raise BrokerError(f"Validation failed: {error}") from None
            host.policies_changed()

    def trace_on(self, vhost: str = "/") -> None:
        """Copy what is published and delivered in a virtual host to its exchange `amq.rabbitmq.trace`."""
        with self._acting() as node:
            find_vhost(node, vhost).trace_on()

    def trace_off(self, vhost: str = "/") -> None:
        """Stop copying what is published and delivered."""
        with self._acting() as node:
            find_vhost(node, vhost).trace_off()

    def set_alarm(self, resource: Alarm) -> None:
        """Set the alarm of "memory" or "disk". Connections that publish are blocked until the last alarm is cleared."""
        _refuse_unknown("alarm", resource, _RESOURCES)
        with self._acting() as node:
            node.set_alarm(resource)

    def clear_alarm(self, resource: Alarm) -> None:
        """Clear the alarm of "memory" or "disk". One that is not set is no error."""
        _refuse_unknown("alarm", resource, _RESOURCES)
        with self._acting() as node:
            node.clear_alarm(resource)

    def drain(self) -> None:
        """Put the broker into maintenance mode: close all connections, and accept none until `revive`."""
        self._engine.close_ports()
        with self._acting() as node:
            _close(list(node.connections.values()), _MAINTENANCE)

    def revive(self) -> None:
        """End maintenance mode: open the same ports again."""
        self._engine.reopen_ports()

    def close_connection(self, connection: int | str, reason: str = _CLOSED) -> None:
        """Close a connection by its number, or a client's connections by their name.

        Raises BrokerError if there is none.
        """
        with self._acting() as node:
            connections = [it for it in node.connections.values() if connection in _names_of(it)]
            if not connections:
                names = [name for it in node.connections.values() for name in _names_of(it)]
                hint = expected(str(connection), map(str, names))
                raise BrokerError(f"unknown connection {connection!r}{hint}")
            _close(connections, reason)

    def close_all_connections(self, reason: str = _CLOSED, *, vhost: str | None = None) -> int:
        """Close the connections to a virtual host, or all of them, and return how many."""
        with self._acting(vhost=vhost) as node:
            return _close(node.connections_of(vhost_name=vhost), reason)

    def close_all_user_connections(self, user: str, reason: str = _CLOSED) -> int:
        """Close the connections of a user, and return how many."""
        with self._acting(user=user) as node:
            return _close(node.connections_of(user=user), reason)

    def import_definitions(self, definitions: Mapping[str, object] | str | Path, *, vhost: str | None = None) -> None:
        """Add what RabbitMQ's definitions.json describes, given as a path or as what `json.load` returns.

        Existing queues, exchanges and bindings stay as they are. Users, permissions, limits and policies take the new
        values. With `vhost`, only what belongs in a virtual host is added, and to that one, whatever the objects say.
        A queue that RabbitMQ leaves out is a warning. Raises BrokerError with the object and key of a mistake; what
        comes before it has been added.
        """
        from leveret.admin import definitions_import

        described = definitions_import.read(definitions)
        with self._acting(vhost=vhost) as node:
            left_out = definitions_import.load(node, described, vhost or definitions_import.default_vhost(described))
        definitions_import.warn_of(left_out)

    def export_definitions(self, path: str | Path | None = None) -> dict[str, object]:
        """Return what definitions.json can describe of the broker, as a mapping, and write it to `path` if given."""
        import json
        from pathlib import Path

        from leveret.admin.definitions_export import export

        with self._engine.looking() as node:
            described = export(node)
        if path is not None:
            Path(path).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8", newline="\n")
        return described


def announce_metadata(vhost: VirtualHost) -> None:
    """Announce what an operator has said about an existing virtual host."""
    described = {"description": vhost.description, "tags": vhost.tags, "default_queue_type": vhost.default_queue_type}
    vhost.node.announce("vhost.updated", name=vhost.name, **described)


def set_policy(node: Node, vhost: str, policy: Policy, *, is_operator: bool = False) -> None:
    """Set a policy of users, or of operators. Raises PolicyInvalid if RabbitMQ refuses it."""
    host = find_vhost(node, vhost)
    (host.policies.operator if is_operator else host.policies.user).set(policy)
    host.policies_changed()
    value = policy.described()
    if is_operator:
        node.announce("parameter.set", component="operator_policy", name=policy.name, vhost=vhost, value=value)
    node.announce("policy.set", name=policy.name, vhost=vhost, **value)


def _names_of(connection: ConnectionPort) -> tuple[object, ...]:
    return connection.number, connection.client_name


def _close(connections: list[ConnectionPort], reason: str) -> int:
    for connection in connections:
        connection.refuse(0, ConnectionForced(reason))
    return len(connections)


def _find_user(node: Node, name: str) -> User:
    """Return the user of that name. Raises BrokerError if there is none."""
    users = node.access.users
    if name not in users:
        raise BrokerError(unknown("user", name, users))
    return users[name]


def _refuse_unknown(what: str, name: str, known: Iterable[str]) -> None:
    """Raise BrokerError for a word that is not among `known`."""
    if name not in known:
        raise BrokerError(unknown(what, name, known))


def _check_limits(limits: Mapping[str, int], known: Iterable[str]) -> None:
    for name, number in limits.items():
        _refuse_unknown("limit", name, known)
        if not isinstance(number, int) or isinstance(number, bool):
            raise BrokerError(f"limit {name} must be an integer, not {number!r}")


def _check_patterns(node: Node, **patterns: str) -> None:
    bytes_max = node.compat.max_pattern_bytes
    for right, pattern in patterns.items():
        if is_too_long(pattern, bytes_max):
            raise BrokerError(f"{right}={pattern[:20]!r}... is too long; RabbitMQ takes at most {bytes_max} bytes")
        try:
            name_pattern(pattern, is_pcre2=node.compat.has_pcre2)
        except re.error as error:
            raise BrokerError(f"{right}={pattern!r} is not a regular expression: {error}; '.*' allows all") from None
