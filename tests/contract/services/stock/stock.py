"""Reserves stock for orders, with FastStream and a pydantic model."""

from __future__ import annotations

import os

from faststream import FastStream
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from pydantic import BaseModel, Field

broker = RabbitBroker(os.environ["AMQP_URL"])
app = FastStream(broker)
shop = RabbitExchange("shop", ExchangeType.TOPIC, durable=True)
orders = RabbitQueue("stock.orders", durable=True, routing_key="order.paid")


class Line(BaseModel):
    """A line of an order."""

    sku: str
    quantity: int = Field(gt=0)
    gift_wrap: bool = False


class Paid(BaseModel):
    """An order that is paid."""

    order_id: str
    warehouse: str = "main"
    lines: list[Line]
    comment: str | None = None


class Stock:
    """What lies in the warehouses. The real one is a database."""

    def __init__(self) -> None:
        self.left: dict[tuple[str, str], int] = {}


stock = Stock()


@broker.subscriber(orders, shop)
async def reserve(order: Paid) -> None:
    """Reserve what was ordered, and announce it."""
    missing = []
    for line in order.lines:
        key = (order.warehouse, line.sku)
        if stock.left.get(key, 0) < line.quantity:
            missing.append(line.sku)
            continue
        stock.left[key] -= line.quantity
    outcome = "stock.missing" if missing else "stock.reserved"
    await broker.publish(
        {
            "order_id": order.order_id,
            "missing": missing,
            "wrapped": sum(line.quantity for line in order.lines if line.gift_wrap),
        },
        outcome,
        shop,
    )
