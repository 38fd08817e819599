"""The picture of a broker: its exchanges with their bindings, and its queues, as they stand at one moment.

Events say what changed. The picture adds what only the state says: what existed before the events began, durability,
policies, and how many messages each queue holds. The caller holds the broker's lock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from leveret.observe.views.views import ExchangeView, QueueFacts, exchange_view, queue_facts

if TYPE_CHECKING:
    from leveret.core.model.exchanges.exchange import Exchange
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.core.model.vhost import VirtualHost
    from leveret.trace.redaction import Redaction


class Picture(NamedTuple):
    """The exchanges and queues of all virtual hosts. Secrets among their arguments are hidden."""

    queues: list[QueueFacts]
    exchanges: list[ExchangeView]


def picture_of(node: Node, redaction: Redaction) -> Picture:
    """Return the picture of a node."""

    def queue_of(queue: StoredQueue, vhost: VirtualHost) -> QueueFacts:
        facts, shown = queue_facts(queue, vhost), redaction.shown
        return replace(facts, arguments=shown(facts.arguments), policy_keys=shown(facts.policy_keys))

    def exchange_of(exchange: Exchange, vhost_name: str) -> ExchangeView:
        view = exchange_view(exchange, vhost_name)
        bindings = tuple(replace(each, arguments=redaction.shown(each.arguments)) for each in view.bindings)
        return replace(view, arguments=redaction.shown(view.arguments), bindings=bindings)

    vhosts = node.vhosts.values()
    return Picture(
        [queue_of(queue, vhost) for vhost in vhosts for queue in vhost.queues.values()],
        [exchange_of(exchange, vhost.name) for vhost in vhosts for exchange in vhost.exchanges.values()],
    )
