"""Shipping: a parcel for each paid order, with aio-pika. Each parcel has a routing key of its own."""

from __future__ import annotations

import json
import uuid
from types import TracebackType
from typing import Self

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

CARRIERS = {"DE": "dhl", "FR": "colissimo"}


class Shipping:
    """Consumes paid orders, and announces parcels."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Self:
        self._connection = await aio_pika.connect(self._url, client_properties={"connection_name": "shipping"})
        channel = await self._connection.channel()
        await channel.set_qos(prefetch_count=5)
        orders = await channel.declare_exchange("orders", aio_pika.ExchangeType.TOPIC, durable=True)
        self._parcels = await channel.declare_exchange("parcels", aio_pika.ExchangeType.TOPIC, durable=True)
        queue = await channel.declare_queue("shipping", durable=True)
        await queue.bind(orders, "order.paid")
        await queue.consume(self._on_order)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def _on_order(self, message: AbstractIncomingMessage) -> None:
        async with message.process(requeue=False):
            order = json.loads(message.body)
            parcel = {
                "parcel": str(uuid.uuid4()),
                "order": order["id"],
                "carrier": CARRIERS[order["country"]],
                "weight": order.get("weight"),
                "state": "announced",
            }
            await self._parcels.publish(
                aio_pika.Message(
                    json.dumps(parcel).encode(),
                    content_type="application/json",
                    correlation_id=order["id"],
                    delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                ),
                f"parcel.{parcel['parcel']}.announced",
            )
