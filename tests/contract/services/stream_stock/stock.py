"""The stock, with FastStream: it reserves the articles of an order, and says what has become scarce."""

from __future__ import annotations

import os
from enum import StrEnum

from faststream import FastStream
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from pydantic import BaseModel

broker = RabbitBroker(os.environ["AMQP_URL"], reconnect_interval=0.5)
app = FastStream(broker)
orders = RabbitExchange("orders", ExchangeType.TOPIC, durable=True)
stock = RabbitExchange("stock", ExchangeType.TOPIC, durable=True)


class Line(BaseModel):
    """A line of an order."""

    sku: str
    quantity: int


class Order(BaseModel):
    """An order, as far as the stock reads it."""

    id: str
    lines: list[Line]


class Level(StrEnum):
    """How much is left."""

    LOW = "low"
    EMPTY = "empty"


class Scarce(BaseModel):
    """An article that has become scarce."""

    sku: str
    left: int
    level: Level


left: dict[str, int] = {}


@broker.subscriber(RabbitQueue("stock", durable=True, routing_key="order.created"), orders)
async def reserve(order: Order) -> None:
    """Reserve the articles of an order."""
    for line in order.lines:
        left[line.sku] = left.get(line.sku, 10) - line.quantity
        if left[line.sku] < 5:
            level = Level.EMPTY if left[line.sku] <= 0 else Level.LOW
            await broker.publish(Scarce(sku=line.sku, left=left[line.sku], level=level), f"stock.{level}", stock)


@broker.subscriber(RabbitQueue("stock.count", durable=True))
async def count(sku: str) -> int:
    """Answer how many are left of an article."""
    return left.get(sku, 10)
