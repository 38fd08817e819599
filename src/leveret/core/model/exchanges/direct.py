"""The direct exchange: the routing key equals the binding's key."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model.binding import Binding, BindingKey, Destination
from leveret.core.model.exchanges.exchange import NOWHERE, Exchange
from leveret.core.model.message import Message


class DirectExchange(Exchange):
    """An exchange that routes by equal keys."""

    __slots__ = ("_by_routing_key",)

    type_name = "direct"

    _by_routing_key: dict[str, dict[BindingKey, Destination]]

    def _prepare(self) -> None:
        self._by_routing_key = {}

    def _add(self, binding: Binding) -> None:
        self._by_routing_key.setdefault(binding.routing_key, {})[binding.key] = binding.destination

    def _remove(self, binding: Binding) -> None:
        bound = self._by_routing_key[binding.routing_key]
        del bound[binding.key]
        if not bound:
            del self._by_routing_key[binding.routing_key]

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the destinations bound with one of the message's routing keys."""
        by_routing_key = self._by_routing_key
        keys = message.routing_keys
        if len(keys) == 1:
            bound = by_routing_key.get(keys[0])
            return NOWHERE if bound is None else list(bound.values())
        return [destination for key in keys if key in by_routing_key for destination in by_routing_key[key].values()]
