"""A shop: it takes orders by HTTP, announces them on RabbitMQ, and hears from RabbitMQ which ones are paid.

An order is stored before it is announced. If RabbitMQ does not confirm the announcement, the client gets a 503 and may
send the order again. The announcement has the same message id then, so that its receivers can drop a second copy.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aio_pika
from aio_pika.abc import AbstractExchange, AbstractIncomingMessage, AbstractRobustConnection
from aio_pika.exceptions import AMQPError
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

AMQP_URL = os.environ["AMQP_URL"]
CONFIRM_SECONDS = 5.0
RETRY_AFTER_MS = 30_000


class Order(BaseModel):
    """An order, as a client sends it."""

    id: int
    total: int


@dataclass
class Shop:
    """What the shop knows; a real one has a database."""

    exchange: AbstractExchange
    totals: dict[int, int] = field(default_factory=dict)
    announced: set[int] = field(default_factory=set)
    paid: set[int] = field(default_factory=set)

    async def announce(self, order: Order) -> None:
        """Publish an order, and wait until RabbitMQ has confirmed it."""
        message = aio_pika.Message(
            json.dumps({"id": order.id, "total": order.total}).encode(),
            message_id=f"order-{order.id}",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        await self.exchange.publish(message, "order.created", timeout=CONFIRM_SECONDS)
        self.announced.add(order.id)

    async def on_payment(self, message: AbstractIncomingMessage) -> None:
        """Note that an order is paid; look again in half a minute if there is no such order yet."""
        try:
            number = json.loads(message.body)["order"]
        except (ValueError, KeyError, TypeError):
            await message.reject(requeue=False)
            return
        if number not in self.totals:
            await message.channel.basic_publish(
                message.body, routing_key="payments.early", properties=message.properties
            )
        else:
            self.paid.add(number)
        await message.ack()


async def open_shop(connection: AbstractRobustConnection) -> Shop:
    """Declare what the shop needs, and start to consume payments."""
    publishing = await connection.channel(on_return_raises=True)
    shop = Shop(await publishing.declare_exchange("shop", aio_pika.ExchangeType.TOPIC, durable=True))
    consuming = await connection.channel()
    await consuming.set_qos(prefetch_count=10)
    failed = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "payments.failed"}
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "payments", "x-message-ttl": RETRY_AFTER_MS}
    await consuming.declare_queue("payments.failed", durable=True)
    await consuming.declare_queue("payments.early", durable=True, arguments=back)
    payments = await consuming.declare_queue("payments", durable=True, arguments=failed)
    await payments.consume(shop.on_payment)
    return shop


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Stay connected as long as the application runs."""
    async with await aio_pika.connect_robust(AMQP_URL, reconnect_interval=0.5) as connection:
        app.state.shop = await open_shop(connection)
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def place(order: Order) -> dict[str, int]:
    """Take an order and announce it."""
    shop: Shop = app.state.shop
    shop.totals[order.id] = order.total
    try:
        await shop.announce(order)
    except (AMQPError, ConnectionError, TimeoutError) as error:
        raise HTTPException(503, "the order is not announced; send it again") from error
    return {"id": order.id}


@app.get("/orders/{number}")
async def look(number: int) -> dict[str, bool]:
    """Say what has become of an order."""
    shop: Shop = app.state.shop
    if number not in shop.totals:
        raise HTTPException(404, f"no order {number}")
    return {"announced": number in shop.announced, "paid": number in shop.paid}
