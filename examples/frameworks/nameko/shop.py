"""A shop of nameko services: orders ask for prices by RPC, and an event of each order goes to the mails.

nameko acknowledges an event although its handler raised. So the mails keep what fails: a mail whose server is down
waits for five minutes in `mails.later`, and what is no order is set aside in `mails.failed`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from kombu import Queue
from nameko.events import EventDispatcher, event_handler
from nameko.messaging import Publisher
from nameko.rpc import RpcProxy, rpc

# The queue of `Mails.on_placed`, as nameko names it.
PLACED = "evt-orders-placed--mails.on_placed"
TO_PLACED = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": PLACED, "x-message-ttl": 300_000}
LATER = Queue("mails.later", queue_arguments=TO_PLACED)
FAILED = Queue("mails.failed")


def send_mail(order: dict[str, Any]) -> None:
    """Send a mail; raise OSError if the mail server is down, KeyError if the order is none."""
    print(f"mail: {order['article']} for {order['total']}")


class Prices:
    """A service that knows what articles cost."""

    name = "prices"
    prices: ClassVar = {"tea": 4, "milk": 1}

    @rpc  # type: ignore[untyped-decorator]
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

    @rpc  # type: ignore[untyped-decorator]
    def place(self, article: str, count: int) -> int:
        """Return what the order costs, and announce the order."""
        total: int = count * self.prices.price_of(article)
        self.dispatch("placed", {"article": article, "total": total})
        return total


class Mails:
    """A service that sends a mail for each order."""

    name = "mails"
    publish = Publisher(declare=[LATER, FAILED])

    @event_handler("orders", "placed")  # type: ignore[untyped-decorator]
    def on_placed(self, order: dict[str, Any]) -> None:
        """Send a mail, keep it for later, or set it aside."""
        try:
            send_mail(order)
        except OSError:
            self.publish(order, routing_key=LATER.name)
        except KeyError:
            self.publish(order, routing_key=FAILED.name)
