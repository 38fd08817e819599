"""The random exchange: each message to one destination, all equally likely; keys mean nothing."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model.binding import Destination
from leveret.core.model.exchanges.exchange import NOWHERE, Exchange, Routable


class RandomExchange(Exchange):
    """Routes by a throw of the node's seeded dice."""

    __slots__ = ()

    TYPE = "x-random"
    routes_by_key_alone = False

    def route(self, message: Routable) -> Sequence[Destination]:
        """One destination."""
        if not self.bindings:
            return NOWHERE
        return (self.dice.choice(list(self.bindings.values())).destination,)
