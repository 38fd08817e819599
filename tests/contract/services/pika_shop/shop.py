"""The shop: it announces its orders, with pika."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from decimal import Decimal

import pika

EXCHANGE = "orders"


class Shop:
    """Takes orders, and announces what becomes of them."""

    def __init__(self, url: str) -> None:
        parameters = pika.URLParameters(url)
        parameters.client_properties = {"connection_name": "shop"}
        self._connection = pika.BlockingConnection(parameters)
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._channel.exchange_declare(EXCHANGE, "topic", durable=True)

    def order(self, lines: list[dict[str, object]], *, currency: str = "EUR", coupon: str | None = None) -> str:
        """Take an order of lines with an article, a quantity and a price."""
        number = str(uuid.uuid4())
        body: dict[str, object] = {
            "id": number,
            "status": "open",
            "currency": currency,
            "total": str(sum(Decimal(str(line["price"])) * int(str(line["quantity"])) for line in lines)),
            "customer": {"id": str(uuid.uuid4()), "email": "ada@example.com", "name": "Ada Lovelace"},
            "lines": lines,
            "placed_at": datetime.now(UTC).isoformat(),
        }
        if coupon is not None:
            body["coupon"] = coupon
        self._announce("order.created", body)
        return number

    def pay(self, number: str, amount: str) -> None:
        """Note that an order was paid."""
        self._announce("order.paid", {"id": number, "status": "paid", "amount": amount, "refund_of": None})

    def cancel(self, number: str, reason: str) -> None:
        """Cancel an order."""
        self._announce("order.cancelled", {"id": number, "status": "cancelled", "reason": reason})

    def _announce(self, key: str, body: dict[str, object]) -> None:
        properties = pika.BasicProperties(
            content_type="application/json",
            delivery_mode=2,
            message_id=str(uuid.uuid4()),
            headers={"tenant": "acme", "source": "web"},
        )
        self._channel.basic_publish(EXCHANGE, key, json.dumps(body).encode(), properties)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
