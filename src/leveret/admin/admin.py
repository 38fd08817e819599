"""The operator: what rabbitmqctl does to a running broker, under the names of its commands.

Policies, tracing, alarms, maintenance, definitions, and closing the connections of clients. Clients see what RabbitMQ's
clients would see. An operator's own mistake raises BrokerError at the call. Connections are looked up behind the
barrier, so a client that has just connected is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, get_args

from leveret.admin.vhosts_and_users import VhostsAndUsers, refuse_unknown
from leveret.core.model.errors import ConnectionForced
from leveret.core.model.operators.policy import Policies, Policy, PolicyInvalid
from leveret.errors import BrokerError, expected
from leveret.observe.assertions.keywords import Alarm, ApplyTo
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.views.names import find_vhost

if TYPE_CHECKING:
    from pathlib import Path

    from leveret.core.model.node import Node
    from leveret.core.model.ports import ConnectionPort

_CLOSED: Final = "Closed via leveret"
_MAINTENANCE: Final = "Node was put into maintenance mode"
_RESOURCES: Final = get_args(Alarm)


@checks_calls
class Admin(VhostsAndUsers, Hinting):
    """The type of `broker.admin`: what an operator does to a running broker."""

    _called = "broker.admin"

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
        with self._changing_policies(vhost) as (node, policies):
            policies.user.set(policy)
            node.announce("policy.set", name=name, vhost=vhost, **policy.described())

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
        with self._changing_policies(vhost) as (node, policies):
            policies.operator.set(policy)
            value = policy.described()
            node.announce("parameter.set", component="operator_policy", name=name, vhost=vhost, value=value)
            node.announce("policy.set", name=name, vhost=vhost, **value)

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
        refuse_unknown("alarm", resource, _RESOURCES)
        with self._acting() as node:
            node.set_alarm(resource)

    def clear_alarm(self, resource: Alarm) -> None:
        """Clear the alarm of "memory" or "disk". One that is not set is no error."""
        refuse_unknown("alarm", resource, _RESOURCES)
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
        values. Definitions of a single virtual host go to `vhost`. Raises BrokerError with the object and key of a
        mistake; what comes before it has been added.
        """
        from leveret.admin import definitions_import

        described = definitions_import.read(definitions)
        with self._acting(vhost=vhost) as node:
            definitions_import.load(node, described, vhost)

    def export_definitions(self, path: str | Path | None = None) -> dict[str, object]:
        """Return what definitions.json can describe of the broker, as a mapping, and write it to `path` if given."""
        from leveret.admin.definitions_export import export
        from leveret.admin.definitions_import import write

        with self._engine.looking() as node:
            described = export(node)
        if path is not None:
            write(described, path)
        return described


def _names_of(connection: ConnectionPort) -> tuple[object, ...]:
    return connection.number, connection.client_name


def _close(connections: list[ConnectionPort], reason: str) -> int:
    for connection in connections:
        connection.refuse(0, ConnectionForced(reason))
    return len(connections)
