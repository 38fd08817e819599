"""The local random exchange: like the random one, but for classic queues bound with an empty key.

Local queues are those of the node to which the publisher is connected. With one node, all queues are local.
"""

from __future__ import annotations

from leveret.core.compat import Compat
from leveret.core.model.binding import Destination
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.exchanges.x_random import RandomExchange
from leveret.core.wire.values import Table


class LocalRandomExchange(RandomExchange):
    """An exchange that routes to one of its queues, all equally likely."""

    __slots__ = ()

    type_name = "x-local-random"

    def check_binding(self, destination: Destination, routing_key: str, arguments: Table, compat: Compat) -> None:
        """Refuse a key, an exchange, and a queue that is not classic."""
        if routing_key:
            raise PreconditionFailed(f"Non empty binding '{routing_key}' key not permitted")
        if not destination.is_queue:
            raise PreconditionFailed("Destination not found")
        if destination.type_name != "classic":
            raise PreconditionFailed(
                f"Queue type rabbit_{destination.type_name}_queue not valid for this exchange type"
            )
