"""A service in front of which recordings are replayed: what it does with an order, and how its client does it.

`Billing` decides, and is the same for every client. `serve` runs it in a worker, with pika.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pika

Action = tuple[Any, ...]
ACK = ("ack",)
REJECT = ("reject",)


class Billing:
    """What the service in production does: it bills orders, notes the big ones, and answers if it is asked to."""

    def handle(self, order: dict[str, Any], properties: pika.BasicProperties) -> list[Action]:
        if order["total"] < 0:
            return [REJECT]
        if order["kind"] == "draft":
            return [ACK]
        return [*self.sends(order, properties), ACK]

    def sends(self, order: dict[str, Any], properties: pika.BasicProperties) -> list[Action]:
        sends = [("invoices", "invoice.made", self.invoice(order), self.properties(order, properties))]
        if order["total"] > 100:
            sends.append(("invoices", "audit.big", {"order": order["id"]}, {"content_type": "application/json"}))
        if properties.reply_to:
            reply = {"correlation_id": properties.correlation_id}
            sends.append(("", properties.reply_to, {"is_billed": True}, reply))
        return sends

    def invoice(self, order: dict[str, Any]) -> dict[str, Any]:
        return {
            "order": order["id"],
            "total": round(order["total"] * 1.2, 2),
            "currency": "EUR",
            "is_paid": False,
            "customer": {"name": order["customer"]},
            "lines": [{"sku": sku} for sku in order["lines"]],
            "note": None,
        }

    def properties(self, order: dict[str, Any], properties: pika.BasicProperties) -> dict[str, Any]:
        return {
            "content_type": "application/json",
            "delivery_mode": 2,
            "type": "invoice",
            "correlation_id": properties.message_id,
            "headers": {"tenant": properties.headers["tenant"], "level": 3},
        }


class Client:
    """How the service uses pika."""

    prefetch = 10

    def __init__(self, billing: Billing) -> None:
        self.billing = billing
        self.connection = pika.BlockingConnection(self.parameters())
        self.channel = self.connection.channel()
        self.declare()
        print("ready")
        self.begin()

    def parameters(self) -> pika.URLParameters:
        return pika.URLParameters(os.environ["AMQP_URL"])

    def declare(self) -> None:
        channel = self.channel
        channel.exchange_declare("orders", "topic", durable=True)
        channel.exchange_declare("invoices", "topic", durable=True)
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "billing.dead"}
        for queue, arguments in (("billing.dead", {}), ("invoices", {}), ("answers", {}), ("billing", dead)):
            channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_bind("billing", "orders", "order.#")
        channel.queue_bind("invoices", "invoices", "#")

    def begin(self) -> None:
        self.channel.basic_qos(prefetch_count=self.prefetch)
        self.channel.basic_consume("billing", self.on_order)
        self.channel.start_consuming()

    def on_order(self, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        for action in self.billing.handle(json.loads(body), properties):
            self.act(method.delivery_tag, action)

    def act(self, tag: int, action: Action) -> None:
        if action == ACK:
            self.channel.basic_ack(tag)
        elif action == REJECT:
            self.channel.basic_reject(tag, requeue=False)
        else:
            self.send(*action)

    def send(self, exchange: str, key: str, body: Any, properties: dict[str, Any]) -> None:
        self.channel.basic_publish(exchange, key, self.encoded(body), pika.BasicProperties(**properties))

    def encoded(self, body: Any) -> bytes:
        return json.dumps(body).encode()


def serve(variant: str = "") -> None:
    """Run the service, or a variant of it."""
    from .variants import VARIANTS

    billing, client = VARIANTS.get(variant, (Billing, Client))
    client(billing())
