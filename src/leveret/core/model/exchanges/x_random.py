"""The random exchange: each message goes to one destination, all equally likely; keys are ignored."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model.binding import Destination
from leveret.core.model.exchanges.exchange import NOWHERE, Exchange
from leveret.core.model.message import Message


class RandomExchange(Exchange):
    """An exchange that routes at random, by the node's seeded dice."""

    __slots__ = ()

    type_name = "x-random"
    routes_by_key_alone = False

    def route(self, message: Message) -> Sequence[Destination]:
        """Return one destination."""
        if not self.bindings:
            return NOWHERE
        return (self.dice.choice(list(self.bindings.values())).destination,)
