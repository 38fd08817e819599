"""What the tests of aiormq share: an open connection and a channel with publisher confirms (the library's default)."""

import asyncio

import aiormq
import pytest
import pytest_asyncio


@pytest_asyncio.fixture
async def connect(broker_url, patience):
    """This opens one more connection; all of them are closed at the end of the test."""
    opened = []

    async def connect(url=broker_url):
        opened.append(await asyncio.wait_for(aiormq.connect(url), patience))
        return opened[-1]

    yield connect
    for connection in opened:
        await connection.close()


@pytest_asyncio.fixture
async def connection(connect):
    return await connect()


@pytest_asyncio.fixture
async def channel(connection):
    return await connection.channel()


@pytest.fixture
def ready_count(connection):
    """This asks how many messages of a queue are ready."""

    async def ready_count(name):
        channel = await connection.channel()
        declared = await channel.queue_declare(name, passive=True)
        await channel.close()
        return declared.message_count

    return ready_count
