"""A service that tells prices and a client that asks it, by RabbitMQ's direct reply-to.

The client consumes from a name that stands for its own channel, so it needs no reply queue; see "Direct Reply-to" in
RabbitMQ's documentation.
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
    """This answers with the price of an article, or with an error."""

    def __init__(self, channel: AbstractChannel, prices: Mapping[str, int]) -> None:
        """Answer on this channel, once `start` was called."""
        self.channel = channel
        self.prices = prices

    async def start(self) -> None:
        """Begin to answer."""
        await self.channel.set_qos(prefetch_count=10)
        queue = await self.channel.declare_queue(REQUESTS, durable=True)
        await queue.consume(self.on_request)

    async def on_request(self, request: AbstractIncomingMessage) -> None:
        """Answer one request; one without an address for the answer is rejected."""
        if request.reply_to is None:
            await request.reject()
            return
        article = json.loads(request.body)["article"]
        answer = {"price": self.prices[article]} if article in self.prices else {"error": f"no article {article!r}"}
        reply = aio_pika.Message(json.dumps(answer).encode(), correlation_id=request.correlation_id)
        await self.channel.default_exchange.publish(reply, routing_key=request.reply_to)
        await request.ack()


class PriceClient:
    """This asks for prices."""

    def __init__(self, channel: AbstractChannel) -> None:
        """Ask on this channel, once `start` was called."""
        self.channel = channel
        self.waiting: dict[str, asyncio.Future[dict[str, object]]] = {}

    async def start(self) -> None:
        """Be ready for replies: RabbitMQ wants that before the first request."""
        replies = await self.channel.get_queue(REPLY_TO, ensure=False)
        await replies.consume(self.on_reply, no_ack=True)

    async def on_reply(self, reply: AbstractIncomingMessage) -> None:
        """Give an answer to whoever asked."""
        self.waiting.pop(reply.correlation_id or "").set_result(json.loads(reply.body))

    async def price_of(self, article: str, *, patience: float = 5) -> int:
        """Ask for a price; LookupError for an unknown article, TimeoutError when nobody answers."""
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
