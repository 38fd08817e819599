"""The export of definitions: a node as RabbitMQ's definitions.json.

It leaves out what rabbitmqctl leaves out: RabbitMQ's own exchanges, internal ones, queues that are not durable, and the
bindings of all these. The management API leaves out less (see `Extent`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.admin.definitions_import import OPERATOR_POLICY, VHOST_LIMITS_PARAMETER
from leveret.admin.values import Described, described
from leveret.core.model.operators.access import User
from leveret.core.model.operators.passwords import PasswordHash

if TYPE_CHECKING:
    from leveret.core.model.binding import Binding
    from leveret.core.model.exchanges.exchange import Exchange
    from leveret.core.model.node import Node
    from leveret.core.model.operators.policy import PolicySet
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.core.model.vhost import VirtualHost
    from leveret.core.wire.values import Table

# The only exchange of RabbitMQ's own that it exports.
_EXPORTED: Final = "amq.rabbitmq.log"


class Extent(NamedTuple):
    """What is exported beyond what rabbitmqctl exports."""

    # Queues that are not durable, unless they are exclusive, and all bindings of exported queues and of exchanges.
    has_transient: bool = False
    # Internal exchanges; each exchange then says whether it is internal.
    has_internal: bool = False


RABBITMQCTL: Final = Extent()


def export(node: Node, extent: Extent = RABBITMQCTL) -> Described:
    """Return the definitions of the whole broker."""
    vhosts = list(node.vhosts.values())
    return {
        **_head(node, "cluster"),
        "original_cluster_name": node.cluster_name,
        "explanation": f"Definitions of cluster '{node.cluster_name}'",
        "users": [described_user(user) for user in node.access.users.values()],
        "vhosts": [{"name": it.name, "limits": dict(it.limits), "metadata": described_metadata(it)} for it in vhosts],
        "permissions": list(described_permissions(node)),
        "topic_permissions": list(described_topic_permissions(node)),
        "parameters": [each for vhost in vhosts for each in described_parameters(vhost)],
        "global_parameters": [
            {"name": name, "value": value}
            for name, value in node.global_parameters.items()
            if node.compat.exports_internal_parameters or not name.startswith("internal")
        ],
        "policies": [
            {"name": policy.name, "vhost": vhost.name, **policy.described()}
            for vhost in vhosts
            for policy in vhost.policies.user.by_name.values()
        ],
        "queues": [each for vhost in vhosts for each in _queues(vhost, extent)],
        "exchanges": [each for vhost in vhosts for each in _exchanges(vhost, extent)],
        "bindings": [each for vhost in vhosts for each in _bindings(vhost, extent)],
    }


def export_vhost(vhost: VirtualHost, extent: Extent = RABBITMQCTL) -> Described:
    """Return the definitions of one virtual host."""
    sections = {
        "parameters": described_parameters(vhost),
        "policies": ({"name": it.name, **it.described()} for it in vhost.policies.user.by_name.values()),
        "queues": _queues(vhost, extent),
        "exchanges": _exchanges(vhost, extent),
        "bindings": _bindings(vhost, extent),
    }
    return {
        **_head(vhost.node, "single_virtual_host"),
        "original_vhost_name": vhost.name,
        "explanation": f"Definitions of virtual host '{vhost.name}'",
        "metadata": (metadata := described_metadata(vhost)),
        "description": metadata["description"],
        "limits": dict(vhost.limits),
        **{name: [_without_vhost(item) for item in items] for name, items in sections.items()},
    }


def _head(node: Node, extent: str) -> Described:
    version = node.compat.product_version
    return {
        **dict.fromkeys(("rabbit_version", "rabbitmq_version", "product_version"), version),
        "product_name": "RabbitMQ",
        "rabbitmq_definition_format": extent,
    }


def _without_vhost(item: Described) -> Described:
    return {name: value for name, value in item.items() if name != "vhost"}


def described_user(user: User) -> Described:
    """Return a user with the hash of the password."""
    hashed = user.password_hash
    if user.password is not None:
        # RabbitMQ's salt is random; leveret's is always the same.
        hashed = PasswordHash.from_password(user.password, salt=b"salt")
    return {
        "name": user.name,
        "password_hash": "" if hashed is None else hashed.text,
        "hashing_algorithm": (hashed or PasswordHash(b"")).algorithm,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def described_permissions(node: Node) -> Iterator[Described]:
    """Yield what each user may do in each virtual host."""
    for (vhost, user), it in node.access.permissions.items():
        yield {"user": user, "vhost": vhost, "configure": it.configure, "write": it.write, "read": it.read}


def described_topic_permissions(node: Node) -> Iterator[Described]:
    """Yield which routing keys each user may use at which exchanges."""
    for (vhost, user), by_exchange in node.access.topic_permissions.items():
        for exchange, it in by_exchange.items():
            yield {"user": user, "vhost": vhost, "exchange": exchange, "write": it.write, "read": it.read}


def described_metadata(vhost: VirtualHost) -> Described:
    """Return what the operator said about a virtual host."""
    return {
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type,
        **({} if vhost.is_protected is None else {"protected_from_deletion": vhost.is_protected}),
    }


def described_parameters(vhost: VirtualHost) -> Iterator[Described]:
    """Yield the parameters of a virtual host: its limits and its operator policies."""
    if vhost.limits:
        yield {"vhost": vhost.name, "component": VHOST_LIMITS_PARAMETER, "name": "limits", "value": dict(vhost.limits)}
    yield from policies_as_parameters(vhost, OPERATOR_POLICY, vhost.policies.operator)


def policies_as_parameters(vhost: VirtualHost, component: str, policies: PolicySet) -> Iterator[Described]:
    """Yield policies as parameters of a component, which is how RabbitMQ keeps them."""
    for policy in policies.by_name.values():
        yield {"vhost": vhost.name, "component": component, "name": policy.name, "value": policy.described()}


def _queues(vhost: VirtualHost, extent: Extent) -> Iterator[Described]:
    for queue in vhost.queues.values():
        if queue.durable or (extent.has_transient and not queue.is_exclusive):
            yield described_queue(queue)


def described_queue(queue: StoredQueue) -> Described:
    """Return what was declared of a queue."""
    return {
        "name": queue.name,
        "vhost": queue.vhost.name,
        "type": queue.type_name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": described(queue.arguments),
    }


def _exchanges(vhost: VirtualHost, extent: Extent) -> Iterator[Described]:
    for exchange in vhost.exchanges.values():
        if _is_exported(exchange, extent):
            declared = described_exchange(vhost, exchange)
            if not extent.has_internal:
                del declared["internal"]
            yield declared


def described_exchange(vhost: VirtualHost, exchange: Exchange) -> Described:
    """Return what was declared of an exchange."""
    return {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": described(exchange.arguments),
    }


def _is_exported(exchange: Exchange, extent: Extent) -> bool:
    is_ours = not exchange.name or exchange.name.startswith("amq.")
    is_hidden = exchange.internal and not extent.has_internal
    return exchange.name == _EXPORTED or not (is_ours or is_hidden)


def _bindings(vhost: VirtualHost, extent: Extent) -> Iterator[Described]:
    for exchange in vhost.exchanges.values():
        for binding in exchange.bindings.values():
            if _has_exported_ends(vhost, binding, extent):
                ends = (exchange.name, binding.destination.name, binding.destination_kind)
                yield described_binding(vhost.name, *ends, binding.routing_key, binding.arguments)


def described_binding(
    vhost: str, source: str, destination: str, kind: str, routing_key: str, arguments: Table
) -> Described:
    """Return a binding to a queue or exchange."""
    return {
        "source": source,
        "vhost": vhost,
        "destination": destination,
        "destination_type": kind,
        "routing_key": routing_key,
        "arguments": described(arguments),
    }


def _has_exported_ends(vhost: VirtualHost, binding: Binding, extent: Extent) -> bool:
    if not binding.source_name or (vhost.exchanges[binding.source_name].internal and not extent.has_transient):
        return False
    if binding.destination_kind == "queue":
        queue = vhost.queues[binding.destination.name]
        return queue.durable or (extent.has_transient and not queue.is_exclusive)
    return extent.has_transient or not vhost.exchanges[binding.destination.name].internal
