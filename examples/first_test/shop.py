"""A shop announces every order; billing writes an invoice for each. Both use pika and know only a URL."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

import pika

EXCHANGE = "orders"
INVOICES = "invoices"


class Connected:
    """This is what both have: a connection that a `with` statement closes."""

    def __init__(self, amqp_url: str) -> None:
        """Connect and declare the exchange both know."""
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
    """This takes orders."""

    def __init__(self, amqp_url: str) -> None:
        """Ask for confirms, so that an order is either taken by the broker or an error here."""
        super().__init__(amqp_url)
        self.channel.confirm_delivery()

    def place_order(self, number: int, *, total: int) -> None:
        """Announce an order; raises pika.exceptions.UnroutableError when nobody would get it."""
        self.channel.basic_publish(
            EXCHANGE,
            "order.placed",
            json.dumps({"id": number, "total": total}).encode(),
            pika.BasicProperties(content_type="application/json", delivery_mode=pika.DeliveryMode.Persistent),
            mandatory=True,
        )


class Billing(Connected):
    """This writes invoices."""

    def __init__(self, amqp_url: str) -> None:
        """Ask for every order that is placed."""
        super().__init__(amqp_url)
        self.channel.queue_declare(INVOICES, durable=True)
        self.channel.queue_bind(INVOICES, EXCHANGE, "order.placed")

    def write_invoices(self) -> list[str]:
        """Write an invoice for every order that waits, and return them."""
        invoices: list[str] = []
        while True:
            method, _, body = self.channel.basic_get(INVOICES)
            if method is None or body is None:
                return invoices
            order = json.loads(body)
            invoices.append(f"Invoice for order {order['id']}: {order['total']} EUR")
            self.channel.basic_ack(method.delivery_tag)
