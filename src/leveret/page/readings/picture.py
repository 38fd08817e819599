"""The picture of a broker: its exchanges, bindings and queues at one moment, as plain values.

Events say what changed. The picture adds what only the state says: what existed before the events began, durability,
policies, and how many messages each queue holds. The caller holds the broker's lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.core.model.vhost import VirtualHost
    from leveret.trace.redaction import Redaction


@dataclass(slots=True)
class QueueState:
    """A queue as it stands."""

    vhost: str
    name: str
    type: str
    durable: bool
    arguments: dict[str, Any]
    policy: str | None
    policy_keys: dict[str, Any]
    ready: int
    unacked: int
    consumers: int


@dataclass(slots=True)
class ExchangeState:
    """An exchange as it stands."""

    vhost: str
    name: str
    type: str
    arguments: dict[str, Any]
    alternate: str | None


@dataclass(slots=True)
class BindingState:
    """A binding as it stands."""

    vhost: str
    exchange: str
    destination_kind: str
    destination: str
    key: str
    arguments: dict[str, Any]


@dataclass(slots=True)
class Picture:
    """The exchanges, queues and bindings of all virtual hosts."""

    queues: list[QueueState] = field(default_factory=list)
    exchanges: list[ExchangeState] = field(default_factory=list)
    bindings: list[BindingState] = field(default_factory=list)


def picture_of(node: Node, redaction: Redaction) -> Picture:
    """Return the picture of a node."""
    picture = Picture()
    for vhost in node.vhosts.values():
        picture.queues += [_queue(queue, vhost, redaction) for queue in vhost.queues.values()]
        for exchange in vhost.exchanges.values():
            arguments = redaction.shown(exchange.arguments.to_python())
            keys = vhost.policies.effective_for_exchange(exchange.name)
            alternate = arguments.get("alternate-exchange") or keys.get("alternate-exchange")
            known = None if alternate is None else str(alternate)
            picture.exchanges.append(ExchangeState(vhost.name, exchange.name, exchange.type_name, arguments, known))
            picture.bindings += [
                BindingState(
                    vhost.name,
                    binding.source_name,
                    binding.destination_kind,
                    binding.destination_name,
                    binding.routing_key,
                    redaction.shown(binding.arguments.to_python()),
                )
                for binding in exchange.bindings.values()
            ]
    return picture


def _queue(queue: StoredQueue, vhost: VirtualHost, redaction: Redaction) -> QueueState:
    policy, operator = vhost.policies.for_queue(queue.name, queue.type_name)
    names = [one.name for one in (policy, operator) if one is not None]
    return QueueState(
        vhost=vhost.name,
        name=queue.name,
        type=queue.type_name,
        durable=queue.durable,
        arguments=redaction.shown(queue.arguments.to_python()),
        policy=" and ".join(names) or None,
        policy_keys=redaction.shown(vhost.policies.effective_for_queue(queue.name, queue.type_name)),
        ready=len(queue.ready),
        unacked=len(queue.unacked),
        consumers=len(queue.consumers),
    )
