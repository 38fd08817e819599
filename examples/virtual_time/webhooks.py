"""A sender of webhooks that retries a failed one after a minute, ten minutes and an hour.

A ladder of queues does the waiting, one for each step. Their messages expire after the time of the step and are
dead-lettered back to the first queue. The header `tries` counts the steps of a webhook. After the last step, it is set
aside for a person.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

WEBHOOKS: Final = "webhooks"
UNDELIVERED: Final = "webhooks.undelivered"
LADDER_S: Final = {"webhooks.1min": 60, "webhooks.10min": 600, "webhooks.1h": 3600}

Post = Callable[[str, Any], Awaitable[None]]


class Sender:
    """A sender that delivers one webhook after the other."""

    def __init__(self, channel: AbstractChannel, post: Post) -> None:
        """Deliver with `post`, which gets a URL and a payload, and raises ConnectionError if the receiver is down."""
        self.channel = channel
        self.post = post

    async def start(self) -> None:
        """Declare the queues and start to deliver."""
        await self.channel.set_qos(prefetch_count=1)
        webhooks = await self.channel.declare_queue(WEBHOOKS, durable=True)
        await self.channel.declare_queue(UNDELIVERED, durable=True)
        for name, seconds in LADDER_S.items():
            # The default exchange routes by queue name, so an expired webhook goes back to the first queue.
            back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": WEBHOOKS}
            await self.channel.declare_queue(name, durable=True, arguments={"x-message-ttl": seconds * 1000, **back})
        await webhooks.consume(self.on_webhook)

    async def on_webhook(self, message: AbstractIncomingMessage) -> None:
        """Deliver one webhook, or move it to the next step of the ladder."""
        webhook = json.loads(message.body)
        try:
            await self.post(webhook["url"], webhook["payload"])
        except ConnectionError:
            await self.climb(message)
        await message.ack()

    async def climb(self, message: AbstractIncomingMessage) -> None:
        """Let a webhook wait for its next try, or set it aside."""
        tries = int(str(message.headers.get("tries", 0)))
        step = [*LADDER_S, UNDELIVERED][tries]
        again = Message(message.body, headers={"tries": tries + 1}, delivery_mode=DeliveryMode.PERSISTENT)
        await self.channel.default_exchange.publish(again, routing_key=step)
