"""A worker that takes orders out of stock and announces their shipping; it reconnects if its connection is lost."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError
from pika.spec import Basic, BasicProperties

ORDERS = "orders"
SHIPPED = "shipped"
PERSISTENT = BasicProperties(delivery_mode=2)


class Worker:
    """A worker that ships each order once, until `stopping` is set."""

    def __init__(self, amqp_url: str, take_from_stock: Callable[[bytes], None]) -> None:
        self.parameters = pika.URLParameters(amqp_url)
        self.take_from_stock = take_from_stock
        self.taken: list[bytes] = []
        self.stopping = Event()

    def run(self) -> None:
        """Work, and connect again whenever the connection is lost."""
        while not self.stopping.is_set():
            try:
                with pika.BlockingConnection(self.parameters) as connection:
                    self.work(connection.channel())
            except AMQPError:
                continue

    def work(self, channel: BlockingChannel) -> None:
        """Ship orders while the connection lasts."""
        channel.queue_declare(ORDERS, durable=True)
        channel.queue_declare(SHIPPED, durable=True)
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(ORDERS, self.on_order)
        while not self.stopping.is_set():
            channel.connection.process_data_events(time_limit=0.01)

    def on_order(
        self, channel: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, order: bytes
    ) -> None:
        """Ship an order; acknowledge last, so that the order is delivered again if this fails."""
        if order not in self.taken:
            self.take_from_stock(order)
            self.taken.append(order)
        channel.basic_publish("", SHIPPED, order, PERSISTENT)
        channel.basic_ack(method.delivery_tag)
