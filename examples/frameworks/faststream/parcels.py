"""A service that books a parcel for each order of a shop.

RabbitMQ keeps what cannot be booked: orders that the carrier cannot take now wait for a minute in `orders.retry`, and
orders that are no orders, or that the carrier refused three times, end in `orders.failed`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from faststream import FastStream, Header
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from pydantic import BaseModel

RETRY_AFTER_MS = 60_000
ATTEMPTS = 3


class Order(BaseModel):
    """An order of the shop."""

    id: int
    article: str


class CarrierError(Exception):
    """The carrier cannot take an order now."""


class Carrier:
    """The carrier. It books one parcel for an order, however often it is asked."""

    def __init__(self) -> None:
        self.parcels: dict[int, str] = {}

    async def book(self, order: Order) -> str:
        """Return the number of the order's parcel. Raises CarrierError if there is no room now."""
        return self.parcels.setdefault(order.id, f"parcel of {order.article}")


carrier = Carrier()
broker = RabbitBroker(os.environ["AMQP_URL"], reconnect_interval=0.5)
shop = RabbitExchange("shop", ExchangeType.TOPIC, durable=True)
orders = RabbitQueue(
    "orders",
    durable=True,
    routing_key="order.#",
    arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.failed"},
)
failed = RabbitQueue("orders.failed", durable=True)
retry = RabbitQueue(
    "orders.retry",
    durable=True,
    arguments={
        "x-message-ttl": RETRY_AFTER_MS,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "orders",
    },
)
weights = RabbitQueue("weights", durable=True)
booked = broker.publisher("parcel.booked", shop, persist=True)
later = broker.publisher(retry, persist=True)


@broker.subscriber(orders, shop)
async def book(order: Order, attempt: int = Header("x-attempt", default=1)) -> None:
    """Book the parcel of an order and announce it, or keep the order for later."""
    try:
        parcel = await carrier.book(order)
    except CarrierError:
        if attempt == ATTEMPTS:
            raise
        await later.publish(order, headers={"x-attempt": attempt + 1})
    else:
        await booked.publish({"order": order.id, "parcel": parcel})


@broker.subscriber(weights)
async def weigh(article: str) -> int:
    """Answer how many grams an article weighs."""
    return {"teapot": 1200, "cup": 300}[article]


@asynccontextmanager
async def lifespan() -> AsyncIterator[None]:
    """Declare the queues without a subscriber before the first order can need them."""
    await broker.connect()
    await broker.declare_queue(failed)
    await broker.declare_queue(retry)
    yield


app = FastStream(broker, lifespan=lifespan)
