"""A service and its client on one event loop; the broker has its own thread, and `leveret.aio` waits for both."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aio_pika
import pytest
import pytest_asyncio
from aio_pika.abc import AbstractConnection

from examples.rpc_service.prices import PriceClient, PriceService
from leveret import Broker

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def connection(leveret: Broker) -> AsyncIterator[AbstractConnection]:
    async with await aio_pika.connect(leveret.url) as connection:
        yield connection


@pytest_asyncio.fixture
async def client(connection: AbstractConnection) -> PriceClient:
    service = PriceService(await connection.channel(), {"tea": 4})
    await service.start()
    client = PriceClient(await connection.channel())
    await client.start()
    return client


async def test_the_client_gets_a_price(leveret: Broker, client: PriceClient) -> None:
    price = await client.price_of("tea")

    assert price == 4
    request = leveret.assert_delivered("prices", json={"article": "tea"}, times=1)[0]
    leveret.assert_published("", json={"price": 4}, correlation_id=request.correlation_id)


async def test_an_unknown_article_is_an_error_of_the_client(leveret: Broker, client: PriceClient) -> None:
    with pytest.raises(LookupError, match="no article 'coffee'"):
        await client.price_of("coffee")

    await leveret.aio.assert_acked("prices", json={"article": "coffee"}, timeout=5)


@pytest.mark.usefixtures("client")
async def test_a_request_without_an_address_is_rejected(leveret: Broker) -> None:
    leveret.publish(routing_key="prices", json={"article": "tea"})
    await leveret.aio.wait_idle()

    leveret.assert_dropped("prices", reason="rejected", json={"article": "tea"})
    leveret.assert_not_published("", json={"price": 4})
