"""A service that makes thumbnails with aio-pika, on a connection that restores itself.

The queue retries: RabbitMQ 4.3 holds a rejected image for a minute, then for two, and sets it aside after the third
failure. What is no image is set aside at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

RETRIES = {
    "x-queue-type": "quorum",
    "x-delivery-limit": 2,
    "x-delayed-retry-type": "failed",
    "x-delayed-retry-min": 60_000,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "images.failed",
}


class NoImageError(Exception):
    """The file holds something that is no image."""


class Thumbnailer:
    """The service; use it in an `async with` block."""

    def __init__(
        self, amqp_url: str, make: Callable[[str], Awaitable[None]], *, reconnect_interval_s: float = 5
    ) -> None:
        """Connect at the beginning of the block; `make` gets the name of each image."""
        self.amqp_url = amqp_url
        self.make = make
        self.reconnect_interval_s = reconnect_interval_s

    async def __aenter__(self) -> Thumbnailer:
        self.connection = await aio_pika.connect_robust(self.amqp_url, reconnect_interval=self.reconnect_interval_s)
        channel = await self.connection.channel()
        await channel.set_qos(prefetch_count=10)
        await channel.declare_queue("images.failed", durable=True)
        # A robust connection restores only the queues that the application keeps a reference to.
        self.queue = await channel.declare_queue("images", durable=True, arguments=RETRIES)
        await self.queue.consume(self.on_image)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.connection.close()

    async def on_image(self, message: AbstractIncomingMessage) -> None:
        """Make one thumbnail; reject the image if that fails."""
        try:
            await self.make(message.body.decode())
        except NoImageError:
            await message.reject(requeue=False)
        except Exception:
            # Not `nack`: RabbitMQ 4.3 counts only rejections as failures.
            await message.reject(requeue=True)
        else:
            await message.ack()


async def upload(amqp_url: str, name: str) -> None:
    """Ask for a thumbnail; raise aio_pika.exceptions.DeliveryError if the broker did not take the request."""
    async with await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        image = aio_pika.Message(name.encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(image, routing_key="images")
