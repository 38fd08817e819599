"""Print the seconds from nothing to the first connection of a client, for the broker that the argument names.

Each runs in a process of its own, after all imports.
"""

from __future__ import annotations

import asyncio
import sys
import time

import aio_pika
import pika
from amqp_mock import AmqpMockServer, create_amqp_mock
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from kombu import Connection

from leveret import Broker


def leveret() -> None:
    with Broker() as broker, pika.BlockingConnection(pika.URLParameters(broker.url)):
        record()


def kombu_memory() -> None:
    with Connection("memory://") as connection:
        connection.connect()
        record()


async def faststream() -> None:
    broker = RabbitBroker()

    @broker.subscriber("orders")
    async def handle(order: str) -> None:
        pass

    async with TestRabbitBroker(broker):
        record()


async def amqp_mock() -> None:
    async with create_amqp_mock() as mock, await aio_pika.connect(url_of(mock)):
        record()


def url_of(mock: AmqpMockServer) -> str:
    return f"amqp://guest:guest@127.0.0.1:{mock._amqp_server.port}/"


def record() -> None:
    print(time.perf_counter() - started)


if __name__ == "__main__":
    act = globals()[sys.argv[1]]
    started = time.perf_counter()
    if asyncio.iscoroutinefunction(act):
        asyncio.run(act())
    else:
        act()
