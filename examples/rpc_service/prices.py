"""A service that knows prices and a client that asks for them, by RabbitMQ's direct reply-to.

The client consumes from a pseudo-queue that stands for its own channel, so it needs no reply queue. See "Direct
Reply-to" in RabbitMQ's documentation.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

REQUESTS = "prices"
REPLY_TO = "amq.rabbitmq.reply-to"


class PriceService:
    """A service that replies with the price of an article, or with an error."""

    def __init__(self, channel: AbstractChannel, prices: Mapping[str, int]) -> None:
        """Use this channel; call `start` to answer requests."""
        self.channel = channel
        self.prices = prices

    async def start(self) -> None:
        """Start to answer requests."""
        await self.channel.set_qos(prefetch_count=10)
        queue = await self.channel.declare_queue(REQUESTS, durable=True)
        await queue.consume(self.on_request)

    async def on_request(self, request: AbstractIncomingMessage) -> None:
        """Answer one request; reject it if it has no `reply_to`."""
        if request.reply_to is None:
            await request.reject()
            return
        article = json.loads(request.body)["article"]
        answer = {"price": self.prices[article]} if article in self.prices else {"error": f"no article {article!r}"}
        reply = aio_pika.Message(json.dumps(answer).encode(), correlation_id=request.correlation_id)
        await self.channel.default_exchange.publish(reply, routing_key=request.reply_to)
        await request.ack()


class PriceClient:
    """A client that asks for prices."""

    def __init__(self, channel: AbstractChannel) -> None:
        """Use this channel; call `start` before the first request."""
        self.channel = channel
        self.waiting: dict[str, asyncio.Future[dict[str, object]]] = {}

    async def start(self) -> None:
        """Consume replies, which RabbitMQ requires before the first request."""
        replies = await self.channel.get_queue(REPLY_TO, ensure=False)
        await replies.consume(self.on_reply, no_ack=True)

    async def on_reply(self, reply: AbstractIncomingMessage) -> None:
        """Hand a reply to the call that waits for it."""
        self.waiting.pop(reply.correlation_id or "").set_result(json.loads(reply.body))

    async def price_of(self, article: str, *, patience: float = 5) -> int:
        """Return a price; raise LookupError for an unknown article, TimeoutError if no reply arrives."""
        correlation_id = uuid.uuid4().hex
        answered = self.waiting[correlation_id] = asyncio.get_running_loop().create_future()
        request = aio_pika.Message(
            json.dumps({"article": article}).encode(), correlation_id=correlation_id, reply_to=REPLY_TO
        )
        await self.channel.default_exchange.publish(request, routing_key=REQUESTS)
        answer = await asyncio.wait_for(answered, patience)
        if "price" not in answer:
            raise LookupError(answer["error"])
        return int(str(answer["price"]))
