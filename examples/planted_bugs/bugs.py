"""The same worker with one bug at a time. Each of them passes its tests as long as nothing goes wrong."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

from examples.planted_bugs.worker import ORDERS, PERSISTENT, SHIPPED, Worker


class AcknowledgesFirst(Worker):
    """A worker that acknowledges before it has done anything."""

    def on_order(
        self, channel: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, order: bytes
    ) -> None:
        """Ship an order."""
        channel.basic_ack(method.delivery_tag)
        if order not in self.taken:
            self.take_from_stock(order)
            self.taken.append(order)
        channel.basic_publish("", SHIPPED, order, PERSISTENT)


class ShipsTwice(Worker):
    """A worker that expects each message only once."""

    def on_order(
        self, channel: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, order: bytes
    ) -> None:
        """Ship an order."""
        self.take_from_stock(order)
        channel.basic_publish("", SHIPPED, order, PERSISTENT)
        channel.basic_ack(method.delivery_tag)


class ForgetsItsConsumer(Worker):
    """A worker that consumes when it starts, but not after it reconnects."""

    is_consuming = False

    def work(self, channel: BlockingChannel) -> None:
        """Ship orders while the connection lasts."""
        channel.queue_declare(ORDERS, durable=True)
        channel.queue_declare(SHIPPED, durable=True)
        channel.basic_qos(prefetch_count=1)
        if not self.is_consuming:
            channel.basic_consume(ORDERS, self.on_order)
            self.is_consuming = True
        while not self.stopping.is_set():
            channel.connection.process_data_events(time_limit=0.01)
