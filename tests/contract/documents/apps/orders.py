"""A shop that checks orders and bills them: a topic exchange, a published answer, a request."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from faststream import Header
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from pydantic import BaseModel, Field

broker = RabbitBroker()
orders = RabbitExchange("orders", ExchangeType.TOPIC)


class Line(BaseModel):
    """A line of an order."""

    sku: str = Field(pattern=r"^[a-z]+-\d+$")
    count: int = Field(ge=1, le=100)


class Order(BaseModel):
    """An order."""

    id: UUID
    status: Literal["open", "paid"]
    total: Decimal
    placed_at: datetime
    lines: list[Line] = Field(min_length=1)
    note: str | None = None


class Invoice(BaseModel):
    """What an order costs."""

    order: UUID
    amount: float = Field(gt=0)
    currency: str = Field(default="EUR", min_length=3, max_length=3)


created = broker.publisher(routing_key="order.created", exchange=orders, title="OrderCreated", schema=Order)


@broker.publisher(routing_key="invoice.created", exchange=orders)
@broker.subscriber(RabbitQueue("billing", routing_key="order.*"), orders)
async def bill(order: Order, tenant: str = Header(default="")) -> Invoice:
    """Bill an order."""
    return Invoice(order=order.id, amount=float(order.total))


@broker.subscriber("count")
async def count(sku: str, at_most: int = 100) -> int:
    """Answer how many are left of an article."""
    return at_most
