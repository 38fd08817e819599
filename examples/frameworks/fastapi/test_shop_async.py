"""The shop on the event loop of the test, with httpx and anyio's plugin for pytest."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import shop

from leveret import Broker

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """aio-pika runs on asyncio only."""
    return "asyncio"


@pytest.fixture
async def client(leveret_session: Broker) -> AsyncIterator[httpx.AsyncClient]:
    leveret_session.reset()
    # httpx does not run the lifespan of an application.
    async with shop.lifespan(shop.app):
        transport = httpx.ASGITransport(app=shop.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def test_an_order_that_reaches_no_queue_is_an_error(leveret_session: Broker, client: httpx.AsyncClient) -> None:
    response = await client.post("/orders", json={"id": 7, "total": 120})

    assert response.status_code == 503
    leveret_session.assert_returned("shop", routing_key="order.created")


async def test_a_connection_lost_at_the_ack_does_not_book_a_second_payment(
    leveret_session: Broker, client: httpx.AsyncClient
) -> None:
    await client.post("/orders", json={"id": 7, "total": 120})
    leveret_session.faults.reset_peer(on="basic.ack")

    leveret_session.publish("", "payments", json={"order": 7})
    await leveret_session.aio.assert_acked("payments", redelivered=True, timeout=10)

    response = await client.get("/orders/7")
    assert response.json()["paid"] is True
