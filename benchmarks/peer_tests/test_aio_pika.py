"""aio-pika on leveret, and on a server of amqp-mock in the loop of the test."""

from __future__ import annotations

import asyncio

import aio_pika
from amqp_mock import create_amqp_mock


def test_an_order_is_consumed(url: str | None) -> None:
    asyncio.run(order_is_consumed(url) if url else order_is_consumed_on_the_mock())


async def order_is_consumed_on_the_mock() -> None:
    async with create_amqp_mock() as mock:
        await order_is_consumed(f"amqp://guest:guest@127.0.0.1:{mock._amqp_server.port}/")


async def order_is_consumed(url: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        # amqp-mock has no default exchange.
        shop = await channel.declare_exchange("shop", durable=True)
        orders = await channel.declare_queue("orders", durable=True)
        await orders.bind(shop, "order")
        await shop.publish(aio_pika.Message(b'{"id": 7}'), "order")

        delivered: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage] = asyncio.Queue()
        await orders.consume(delivered.put)
        message = await asyncio.wait_for(delivered.get(), timeout=5)
        await message.ack()

        assert message.body == b'{"id": 7}'
