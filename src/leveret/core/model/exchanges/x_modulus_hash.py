"""The modulus-hash exchange: each message to one destination, by a hash of its routing keys.

Binding keys mean nothing; which hash RabbitMQ uses is not copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model.binding import Binding, Destination
from leveret.core.model.exchanges.exchange import NOWHERE, Exchange, Routable
from leveret.core.model.exchanges.hashing import hash_keys


class ModulusHashExchange(Exchange):
    """Routes to the destination numbered hash modulo count, in order of their names."""

    __slots__ = ("_destinations",)

    TYPE = "x-modulus-hash"

    # Exchanges before queues as Erlang sorts them, each once.
    _destinations: list[Destination]

    def _prepare(self) -> None:
        self._destinations = []

    def _add(self, binding: Binding) -> None:
        self._sort()

    def _remove(self, binding: Binding) -> None:
        self._sort()

    def _sort(self) -> None:
        distinct = dict.fromkeys(binding.destination for binding in self.bindings.values())
        self._destinations = sorted(distinct, key=lambda destination: (destination.is_queue, destination.name))

    def route(self, message: Routable) -> Sequence[Destination]:
        """The one destination the hash points to."""
        if not self._destinations:
            return NOWHERE
        return (self._destinations[hash_keys(message.routing_keys) % len(self._destinations)],)
