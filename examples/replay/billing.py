"""A service that bills orders: it sends an invoice for each, and rejects those that it cannot bill."""

from __future__ import annotations

import json
import os
from typing import Any

import pika

QUEUE = "billing"


def main(rate: float = 1.2) -> None:
    """Bill orders until the process ends, with a tax of 20 %."""
    with pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])) as connection:
        channel = connection.channel()

        def on_order(_: Any, method: Any, properties: Any, body: bytes) -> None:
            order = json.loads(body)
            if order["total"] < 0:
                channel.basic_reject(method.delivery_tag, requeue=False)
                return
            invoice = {"order": order["id"], "total": round(order["total"] * rate, 2), "currency": "EUR"}
            headers = {"tenant": properties.headers["tenant"]}
            sent = pika.BasicProperties(content_type="application/json", delivery_mode=2, headers=headers)
            channel.basic_publish("invoices", "invoice.made", json.dumps(invoice).encode(), sent)
            channel.basic_ack(method.delivery_tag)

        channel.basic_qos(prefetch_count=10)
        channel.basic_consume(QUEUE, on_order)
        channel.start_consuming()


def main_without_tax() -> None:
    """Bill orders as a change of the service does, by mistake."""
    main(rate=1.0)
