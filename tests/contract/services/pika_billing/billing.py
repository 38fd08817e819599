"""Billing: an invoice for each order of the shop, with pika. What is no order ends in `billing.failed`."""

from __future__ import annotations

import json
import threading
from decimal import Decimal, InvalidOperation
from typing import Any

import pika

QUEUE = "billing"
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "billing.failed"}


class Billing:
    """Consumes orders in a thread of its own, and publishes invoices."""

    def __init__(self, url: str) -> None:
        parameters = pika.URLParameters(url)
        parameters.client_properties = {"connection_name": "billing"}
        self._connection = pika.BlockingConnection(parameters)
        self._channel = self._connection.channel()
        self._channel.exchange_declare("orders", "topic", durable=True)
        self._channel.exchange_declare("invoices", "direct", durable=True)
        self._channel.queue_declare("billing.failed", durable=True)
        self._channel.queue_declare(QUEUE, durable=True, arguments=DEAD)
        self._channel.queue_bind(QUEUE, "orders", "order.created")
        self._channel.basic_qos(prefetch_count=1)
        self._channel.basic_consume(QUEUE, self._on_order)
        self._thread = threading.Thread(target=self._channel.start_consuming)
        self._number = 0

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """End the work, and the connection."""
        self._connection.add_callback_threadsafe(self._channel.stop_consuming)
        self._thread.join()
        self._connection.close()

    def _on_order(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        try:
            order = json.loads(body)
            total = Decimal(order["total"])
        except (ValueError, KeyError, TypeError, InvalidOperation):
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        self._number += 1
        invoice = {"number": self._number, "order": order["id"], "total": str(total), "paid": total == 0}
        channel.basic_publish(
            "invoices",
            "created",
            json.dumps(invoice).encode(),
            pika.BasicProperties(content_type="application/json", headers=properties.headers),
        )
        channel.basic_ack(method.delivery_tag)
