"""The fanout exchange: every message goes to every destination; keys and arguments of bindings are ignored."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model.binding import Destination
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.message import Message


class FanoutExchange(Exchange):
    """An exchange that routes to all its bindings."""

    __slots__ = ()

    type_name = "fanout"

    def route(self, message: Message) -> Sequence[Destination]:
        """Return all destinations."""
        return [binding.destination for binding in self.bindings.values()]
