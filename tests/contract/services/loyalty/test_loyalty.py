"""The tests of the loyalty service."""

import aio_pika
import pytest
from loyalty import Loyalty

PAID = {
    "order_id": "o-1",
    "customer": {"id": 7, "level": "gold", "test_account": False, "since": 2019},
    "total": 25.9,
    "currency": "EUR",
}
RETURNED = {"order_id": "o-1", "customer_id": 7, "refund": "20", "reason": "broken", "lines": ["cup"]}


@pytest.mark.asyncio
async def test_points_come_and_go(leveret):
    async with await aio_pika.connect(leveret.url) as connection:
        loyalty = Loyalty(await connection.channel())
        await loyalty.start()

        leveret.publish("shop", "order.paid", json=PAID)
        await leveret.aio.wait_idle()
        assert loyalty.points == {7: 50}

        leveret.publish("shop", "order.returned", json=RETURNED)
        await leveret.aio.wait_idle()
        assert loyalty.points == {7: 30}

    leveret.assert_published("shop", routing_key="points.changed", times=2)


@pytest.mark.asyncio
async def test_a_test_account_gets_no_points(leveret):
    async with await aio_pika.connect(leveret.url) as connection:
        loyalty = Loyalty(await connection.channel())
        await loyalty.start()

        leveret.publish("shop", "order.paid", json=PAID | {"customer": {"id": 8, "test_account": True}})
        await leveret.aio.wait_idle()

    assert loyalty.points == {}
