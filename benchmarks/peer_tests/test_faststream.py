"""FastStream on leveret, and with its own TestRabbitBroker: the same test with another `with_real`."""

from __future__ import annotations

import asyncio

from faststream.rabbit import RabbitBroker, TestRabbitBroker


def test_an_order_is_consumed(url: str | None) -> None:
    asyncio.run(order_is_consumed(url))


async def order_is_consumed(url: str | None) -> None:
    broker = RabbitBroker(url) if url else RabbitBroker()

    @broker.subscriber("orders")
    async def handle(order: dict[str, int]) -> None:
        pass

    async with TestRabbitBroker(broker, with_real=url is not None) as connected:
        await connected.publish({"id": 7}, "orders")
        await handle.wait_call(timeout=5)

        handle.mock.assert_called_once_with({"id": 7})
