"""The fanout exchange: everything goes everywhere; keys and arguments of bindings mean nothing."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model.binding import Destination
from leveret.core.model.exchanges.exchange import Exchange, Routable


class FanoutExchange(Exchange):
    """Routes to all its bindings."""

    __slots__ = ()

    TYPE = "fanout"

    def route(self, message: Routable) -> Sequence[Destination]:
        """All destinations."""
        return [binding.destination for binding in self.bindings.values()]
