"""The tests of the service stream_stock."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import stock


@pytest.fixture(autouse=True)
async def service(leveret_session) -> AsyncIterator[None]:
    leveret_session.reset()
    stock.left.clear()
    async with stock.broker:
        await stock.broker.start()
        await stock.broker.declare_exchange(stock.stock)
        leveret_session.declare_queue("seen")
        leveret_session.bind_queue("seen", "stock", "#")
        yield


@pytest.mark.parametrize(("quantity", "levels"), [(1, 0), (6, 1), (10, 1), (7, 1), (12, 1)])
async def test_articles_become_scarce(leveret_session, quantity: int, levels: int) -> None:
    order = {"id": str(uuid.uuid4()), "lines": [{"sku": "tea-1", "quantity": quantity}], "total": "4.50"}
    leveret_session.publish("orders", "order.created", json=order)

    await leveret_session.aio.assert_acked("stock", times=1, timeout=5)
    assert leveret_session.assert_published("stock", times=levels) is not None or levels == 0


async def test_the_stock_answers_how_many_are_left(leveret_session) -> None:
    answer = await stock.broker.request("tea-1", "stock.count", timeout=5)

    assert await answer.decode() == 10
    await leveret_session.aio.wait_idle()
