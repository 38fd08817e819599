"""A shop of nameko services: orders ask for prices by RPC, and an event of each order goes to the mails.

nameko runs services on eventlet, so `eventlet.monkey_patch()` must come first: `nameko run` calls it, and so does
nameko's plugin for pytest.
"""

from __future__ import annotations

from typing import ClassVar

from nameko.events import EventDispatcher, event_handler
from nameko.rpc import RpcProxy, rpc


class Prices:
    """A service that knows what articles cost."""

    name = "prices"
    prices: ClassVar = {"tea": 4, "milk": 1}

    @rpc
    def price_of(self, article: str) -> int:
        """Return a price; raise LookupError for an unknown article."""
        if article not in self.prices:
            raise LookupError(f"no article {article!r}")
        return self.prices[article]


class Orders:
    """A service that takes orders."""

    name = "orders"
    prices = RpcProxy("prices")
    dispatch = EventDispatcher()

    @rpc
    def place(self, article: str, count: int) -> int:
        """Return what the order costs, once everyone can hear of it."""
        total: int = count * self.prices.price_of(article)
        self.dispatch("placed", {"article": article, "total": total})
        return total


class Mails:
    """A service that writes a mail for each order."""

    name = "mails"

    @event_handler("orders", "placed")
    def on_placed(self, order: dict[str, object]) -> None:
        """Send a mail."""
        print(f"  mail: {order['article']} for {order['total']}")
