"""Fixtures for the aiormq tests: an open connection and a channel with publisher confirms (the library's default)."""

import asyncio

import aiormq
import pytest
import pytest_asyncio


@pytest_asyncio.fixture
async def connect(broker_url, patience):
    """Return a function that opens one more connection; all of them are closed when the test ends."""
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
    """Return a function that counts the ready messages of a queue."""

    async def ready_count(name):
        channel = await connection.channel()
        declared = await channel.queue_declare(name, passive=True)
        await channel.close()
        return declared.message_count

    return ready_count
