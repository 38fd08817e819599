"""a client asks a service for prices with aio-pika, answered by direct reply-to"""

from __future__ import annotations

import asyncio

import aio_pika

from examples.rpc_service.prices import PriceClient, PriceService
from examples.telling import print_messages
from leveret import Broker


def tell() -> None:
    """Ask for one price."""
    asyncio.run(ask())


async def ask() -> None:
    """Start both on one event loop; the broker has a thread of its own."""
    async with Broker() as broker, await aio_pika.connect(broker.url) as connection:
        service = PriceService(await connection.channel(), {"tea": 4})
        await service.start()
        client = PriceClient(await connection.channel())
        await client.start()
        print(f"  tea costs {await client.price_of('tea')}")
        await broker.aio.wait_idle()
        print_messages(broker)
