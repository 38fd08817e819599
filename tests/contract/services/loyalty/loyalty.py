"""Counts the points of customers, with aio-pika: one queue for what they buy, one for what they send back."""

from __future__ import annotations

import json

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

BONUS = {"gold": 2, "silver": 1.5}


class Loyalty:
    """The service on one channel."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel
        self.points: dict[int, int] = {}

    async def start(self) -> None:
        """Declare the queues and consume."""
        self._shop = await self._channel.declare_exchange("shop", "topic", durable=True)
        for name, key, handler in (
            ("loyalty.paid", "order.paid", self.on_paid),
            ("loyalty.returned", "order.returned", self.on_returned),
        ):
            queue = await self._channel.declare_queue(name, durable=True)
            await queue.bind(self._shop, key)
            await queue.consume(handler)

    async def on_paid(self, message: AbstractIncomingMessage) -> None:
        """Add the points of an order, one for each full euro."""
        async with message.process(requeue=False, ignore_processed=True):
            order = json.loads(message.body)
            customer = order["customer"]
            if customer.get("test_account"):
                await message.ack()
                return
            factor = BONUS.get(customer.get("level"), 1)
            await self._add(customer["id"], int(order["total"] // 1 * factor), order["order_id"])

    async def on_returned(self, message: AbstractIncomingMessage) -> None:
        """Take the points of a returned order back."""
        try:
            order = json.loads(message.body)
            await self._add(order["customer_id"], -int(order["refund"]), order["order_id"])
        except (KeyError, TypeError, ValueError):
            await message.nack(requeue=False)
        else:
            await message.ack()

    async def _add(self, customer: int, points: int, order: str) -> None:
        self.points[customer] = self.points.get(customer, 0) + points
        body = json.dumps({"customer": customer, "points": self.points[customer], "because": order}).encode()
        await self._shop.publish(aio_pika.Message(body, content_type="application/json"), "points.changed")
