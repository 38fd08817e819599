"""The modulus-hash exchange: each message goes to one destination, chosen by a hash of its routing keys.

Binding keys are ignored. leveret does not copy RabbitMQ's hash function.
"""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model.binding import Binding, Destination
from leveret.core.model.exchanges.exchange import NOWHERE, Exchange
from leveret.core.model.exchanges.x_consistent_hash import hash_keys
from leveret.core.model.message import Message


class ModulusHashExchange(Exchange):
    """An exchange that routes to destination number hash modulo count, in order of their names."""

    __slots__ = ("_destinations",)

    type_name = "x-modulus-hash"

    # Each destination once, exchanges before queues, as Erlang sorts them.
    _destinations: list[Destination]

    def _prepare(self) -> None:
        self._destinations = []

    def _add(self, binding: Binding) -> None:
        distinct = dict.fromkeys(binding.destination for binding in self.bindings.values())
        self._destinations = sorted(distinct, key=lambda destination: (destination.is_queue, destination.name))

    _remove = _add

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the one destination that the hash selects."""
        if not self._destinations:
            return NOWHERE
        return (self._destinations[hash_keys(message.routing_keys) % len(self._destinations)],)
