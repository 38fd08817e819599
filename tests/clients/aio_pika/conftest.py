"""Fixtures for the aio-pika tests: an open connection and a channel with publisher confirms."""

import aio_pika
import pytest_asyncio


@pytest_asyncio.fixture
async def connect(broker_url, patience):
    """Return a function that opens one more connection; all of them are closed when the test ends."""
    opened = []

    async def connect(url=broker_url):
        opened.append(await aio_pika.connect(url, timeout=patience))
        return opened[-1]

    yield connect
    for connection in opened:
        await connection.close()


@pytest_asyncio.fixture
async def connection(connect):
    return await connect()


@pytest_asyncio.fixture
async def channel(connection):
    return await connection.channel(on_return_raises=True)
