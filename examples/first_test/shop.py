"""A shop announces every order, and billing writes an invoice for each. Both use pika and need only a URL."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

import pika

EXCHANGE = "orders"
INVOICES = "invoices"


class Connected:
    """What both share: a connection that a `with` statement closes."""

    def __init__(self, amqp_url: str) -> None:
        """Connect, and declare the exchange that both use."""
        self.connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
        self.channel = self.connection.channel()
        self.channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.connection.close()


class Shop(Connected):
    """The shop: it takes orders and announces them."""

    def __init__(self, amqp_url: str) -> None:
        """Enable confirms, so that placing an order raises if the broker did not take it."""
        super().__init__(amqp_url)
        self.channel.confirm_delivery()

    def place_order(self, number: int, *, total: int) -> None:
        """Announce an order; raise pika.exceptions.UnroutableError if no queue would get it."""
        self.channel.basic_publish(
            EXCHANGE,
            "order.placed",
            json.dumps({"id": number, "total": total}).encode(),
            pika.BasicProperties(content_type="application/json", delivery_mode=pika.DeliveryMode.Persistent),
            mandatory=True,
        )


class Billing(Connected):
    """The billing: it writes invoices."""

    def __init__(self, amqp_url: str) -> None:
        """Bind a queue that gets every placed order."""
        super().__init__(amqp_url)
        self.channel.queue_declare(INVOICES, durable=True)
        self.channel.queue_bind(INVOICES, EXCHANGE, "order.placed")

    def write_invoices(self) -> list[str]:
        """Write an invoice for every waiting order, and return the invoices."""
        invoices: list[str] = []
        while True:
            method, _, body = self.channel.basic_get(INVOICES)
            if method is None or body is None:
                return invoices
            order = json.loads(body)
            invoices.append(f"Invoice for order {order['id']}: {order['total']} EUR")
            self.channel.basic_ack(method.delivery_tag)
