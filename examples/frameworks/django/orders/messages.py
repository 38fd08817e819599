"""What the shop sends to RabbitMQ, with pika, and the queues for it.

Orders that the carrier cannot take now wait for ten minutes in `orders.retry`. Messages that are no orders end in
`orders.failed`.
"""

from __future__ import annotations

import json

import pika
from django.conf import settings
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError

RETRY_AFTER_MS = 600_000
TRIES = 3


def connect() -> pika.BlockingConnection:
    """Connect to the broker of the settings."""
    return pika.BlockingConnection(pika.URLParameters(settings.AMQP_URL))


def declare_queues(channel: BlockingChannel) -> None:
    """Declare the queues of the shop."""
    failed = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.failed"}
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders", "x-message-ttl": RETRY_AFTER_MS}
    channel.queue_declare("orders", durable=True, arguments=failed)
    channel.queue_declare("orders.retry", durable=True, arguments=back)
    channel.queue_declare("orders.failed", durable=True)


def announce(number: int) -> None:
    """Send an order to the worker; raise AMQPConnectionError if the broker did not take it in three tries."""
    for tries_left in reversed(range(TRIES)):
        try:
            with connect() as connection:
                channel = connection.channel()
                declare_queues(channel)
                channel.confirm_delivery()
                channel.basic_publish(
                    "", "orders", json.dumps({"number": number}).encode(), pika.BasicProperties(delivery_mode=2)
                )
            return
        except AMQPConnectionError:
            if not tries_left:
                raise
