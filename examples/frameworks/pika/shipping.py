"""A worker that ships orders with pika. It connects again if it loses its connection.

RabbitMQ keeps what cannot be shipped: orders that the carrier cannot take now wait for half a minute in `orders.retry`,
and orders that are no orders end in `orders.failed`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ConnectionWrongStateError
from pika.spec import Basic, BasicProperties

RETRY_AFTER_MS = 30_000


class CarrierError(Exception):
    """The carrier cannot take an order now."""


def place_order(amqp_url: str, number: int) -> None:
    """Hand an order to the worker; raise pika.exceptions.AMQPError if the broker did not take it."""
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "orders", json.dumps({"id": number}).encode(), BasicProperties(delivery_mode=2))
    connection.close()


class Worker:
    """A worker that ships one order after the other."""

    def __init__(self, amqp_url: str, ship: Callable[[int], None]) -> None:
        """Connect; `ship` gets the number of each order, and raises CarrierError to get it again later."""
        self.amqp_url = amqp_url
        self.ship = ship
        self.is_stopping = False
        self.connect()

    def connect(self) -> None:
        """Connect, declare the queues and start to consume."""
        self.connection = pika.BlockingConnection(pika.URLParameters(self.amqp_url))
        self.channel = self.connection.channel()
        failed = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.failed"}
        back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders", "x-message-ttl": RETRY_AFTER_MS}
        self.channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum", **failed})
        self.channel.queue_declare("orders.retry", durable=True, arguments=back)
        self.channel.queue_declare("orders.failed", durable=True)
        self.channel.confirm_delivery()
        self.channel.basic_qos(prefetch_count=1)
        self.channel.basic_consume("orders", self.on_order)

    def run(self) -> None:
        """Ship orders until `stop`."""
        while not self.is_stopping:
            try:
                self.channel.start_consuming()
            except AMQPConnectionError:
                self.connect()
        self.connection.close()

    def stop(self) -> None:
        """End `run`; may be called from any thread."""
        self.is_stopping = True
        with suppress(ConnectionWrongStateError):
            self.connection.add_callback_threadsafe(self.channel.stop_consuming)

    def on_order(
        self, channel: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes
    ) -> None:
        """Ship one order, or keep it for later."""
        try:
            self.ship(json.loads(body)["id"])
        except CarrierError:
            channel.basic_publish("", "orders.retry", body, properties)
        except (ValueError, KeyError, TypeError):
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        channel.basic_ack(method.delivery_tag)
