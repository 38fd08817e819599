"""The ways of messages as text: why a message reached no queue, and what leads to a queue.

It compares a routing key with the bindings as they are now, and says so if a binding came too late. It reads the model
and changes nothing; the caller holds the broker's lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from leveret.core.model.binding import Binding
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.exchanges.topic import topic_matches
from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.vhost import VirtualHost
from leveret.errors import nearest
from leveret.observe.texts.near import slip
from leveret.observe.views.names import existing_queue
from leveret.story.causes import Cause, cut

# The types whose `route` only reads. Others choose at random or remember messages.
_READING: Final = ("direct", "fanout", "topic", "headers")
_BY_KEY: Final = ("direct", "topic")


class Unrouted:
    """Why messages reached no queue, as a node stands now: a look at many messages, in which the node does not change.

    Similar names are searched for until the budget of comparisons is spent. From then on less is said.
    """

    def __init__(self, node: Node, budget: int = 20_000) -> None:
        """Look at messages of this node."""
        self._node: Final = node
        self._budget = budget
        # What was found of messages alike, and the bindings of exchanges as texts.
        self._found: Final[dict[tuple[object, ...], Cause]] = {}
        self._bindings: Final[dict[tuple[str, str], list[str]]] = {}

    def why(self, vhost_name: str, message: Message, *, deleted: str | None = None) -> Cause:
        """Return why no binding took a message: its key beside those that would have, the most similar first.

        `deleted` says how the queue that its key names was deleted before.
        """
        vhost = self._node.vhosts.get(vhost_name)
        exchange = None if vhost is None else vhost.exchanges.get(message.exchange)
        if vhost is None or exchange is None:
            return Cause("exchange_gone", {"exchange": message.exchange, "routing_key": message.routing_key})
        if exchange is vhost.default_exchange and deleted is not None:
            return Cause("queue_deleted", {"deletion": deleted})
        if exchange.type_name not in (*_BY_KEY, "fanout"):
            return self._why(vhost, exchange, message)
        alike = vhost_name, message.exchange, message.routing_keys
        if alike not in self._found:
            self._found[alike] = self._why(vhost, exchange, message)
        return self._found[alike]

    def _why(self, vhost: VirtualHost, exchange: Exchange, message: Message) -> Cause:
        key, bindings = message.routing_key, list(exchange.bindings.values())
        names = {"exchange": message.exchange, "routing_key": key}
        if exchange is vhost.default_exchange:
            return self._no_queue(vhost, key)
        if not bindings:
            return Cause("no_bindings", names)
        if exchange.type_name in _READING and (destinations := list(exchange.route(message))):
            queues = [one.name for one in destinations if one.is_queue]
            exchanges = [one.name for one in destinations]
            return Cause(
                "bound_later" if queues else "bound_to_exchange", {**names, "queues": queues, "exchanges": exchanges}
            )
        kind, place = (
            "no_match_of_headers" if exchange.type_name == "headers" else "no_match",
            (vhost.name, exchange.name),
        )
        if not self._may_compare(bindings):
            shown = self._bindings[place] = self._bindings.get(place) or _texts(bindings)
            return Cause(kind, {**names, "bindings": shown})
        ordered = _nearest_first(key, bindings)
        why = slip(key, ordered[0].routing_key) if exchange.type_name in _BY_KEY else ""
        more = {"slip": mismatch_text(key, ordered[0].routing_key, why)} if why else {}
        return Cause(kind, {**names, "bindings": _texts(ordered), **more})

    def _no_queue(self, vhost: VirtualHost, key: str) -> Cause:
        if key in vhost.queues:
            return Cause("declared_later", {"queue": key})
        # Names that are generated are no guide to each other.
        is_searched = not key.startswith("amq.") and self._may_compare(vhost.queues)
        near = nearest(key, vhost.queues) if is_searched else []
        return Cause("no_queue" if vhost.queues else "no_queues", {"queue": key, "near": near or None})

    def _may_compare(self, names: Collection[object]) -> bool:
        """Take the comparisons of one name with others from the budget, and return whether it had them."""
        self._budget -= len(names)
        return self._budget >= 0


def ways_to(node: Node, vhost_name: str, queue_name: str) -> str:
    """Return what is bound to a queue; empty if the queue does not exist."""
    vhost = node.vhosts.get(vhost_name)
    queue = None if vhost is None else vhost.queues.get(queue_name)
    if vhost is None or queue is None:
        return ""
    ways = [f"{binding.source_name!r} by {_key_text(binding)}" for binding in vhost.incoming.get(queue, {}).values()]
    others = [other for other in vhost.queues.values() if other is not queue]
    dying = [repr(other.name) for other in others if _dead_letters_to(other, queue_name)]
    if not ways and dying:
        return f"{cut(dying)} {'dead-letters' if len(dying) == 1 else 'dead-letter'} to {queue_name!r}"
    if not ways:
        return f"{queue_name!r} has no bindings, so only the default exchange leads to it"
    return f"{queue_name!r} is bound to {cut(ways)}"


def why_not_there(node: Node, vhost_name: str, queue_name: str, message: Message, late: Collection[str]) -> str:
    """Return which binding of a queue a message nearly matched, or that it came `late`; empty if there is none.

    `late` are the keys by which the queue was bound after the publish.
    """
    vhost = node.vhosts.get(vhost_name)
    queue = None if vhost is None else vhost.queues.get(queue_name)
    exchange = None if vhost is None else vhost.exchanges.get(message.exchange)
    if vhost is None or queue is None or exchange is None or exchange.type_name not in (*_BY_KEY, "fanout"):
        return ""
    own = [binding for binding in vhost.incoming.get(queue, {}).values() if binding.source_name == exchange.name]
    key = message.routing_key
    for pattern in (binding.routing_key for binding in _nearest_first(key, own)):
        if _takes(exchange, pattern, key):
            return f"it was published before {queue_name!r} was bound to {exchange.name!r}" if pattern in late else ""
        if why := slip(key, pattern):
            return mismatch_text(key, pattern, why)
    return ""


def _takes(exchange: Exchange, pattern: str, key: str) -> bool:
    is_match = key == pattern if exchange.type_name == "direct" else topic_matches(pattern, key)
    return is_match or exchange.type_name == "fanout"


def mismatch_text(key: str, pattern: str, why: str) -> str:
    """Return that a routing key does not match a binding key, and why."""
    return f"{key!r} does not match {pattern!r}: {why}"


def _dead_letters_to(queue: StoredQueue, name: str) -> bool:
    settings = queue.settings
    return settings.dead_letter_exchange == "" and settings.dead_letter_routing_key == name


def consumers_text(node: Node, vhost_name: str, queue_name: str) -> str:
    """Return why a queue has no consumers: it does not exist, or clients consume from others."""
    vhost = node.vhosts.get(vhost_name)
    if vhost is None:
        return f"; virtual host {vhost_name!r} does not exist"
    missing = "" if queue_name in vhost.queues else f"; queue {queue_name!r} was not declared"
    consumed = [name for name, queue in vhost.queues.items() if len(queue.consumers)]
    others = list(dict.fromkeys([*nearest(queue_name, consumed), *consumed]))
    return missing + (f"; clients consume from {cut([repr(name) for name in others])}" if others else "")


def why_not_dead_lettered(node: Node, vhost_name: str, queue_name: str) -> Cause | None:
    """Return why a queue has nowhere to send its dead letters; None if it has, or does not exist."""
    queue = existing_queue(node, vhost_name, queue_name)
    if queue is None:
        return None
    name = queue.settings.dead_letter_exchange
    if name is None:
        return Cause("no_dead_letter_exchange", {"queue": queue_name})
    return None if name in queue.vhost.exchanges else Cause("dead_letter_exchange_missing", {"exchange": name})


def _nearest_first(key: str, bindings: list[Binding]) -> list[Binding]:
    order = nearest(key, dict.fromkeys(binding.routing_key for binding in bindings))
    ranks = {binding_key: rank for rank, binding_key in enumerate(order)}
    return sorted(bindings, key=lambda binding: ranks.get(binding.routing_key, len(ranks)))


def _texts(bindings: Iterable[Binding]) -> list[str]:
    return [f"{_key_text(one)} to {one.destination.name!r}" for one in bindings]


def _key_text(binding: Binding) -> str:
    arguments = binding.arguments.to_python()
    return f"{binding.routing_key!r} {arguments!r}" if arguments else repr(binding.routing_key)
