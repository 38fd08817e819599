"""a client asks a service for a price with aio-pika, and gets it by direct reply-to"""

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
    """Run service and client on one event loop; the broker has its own thread."""
    async with Broker() as broker, await aio_pika.connect(broker.url) as connection:
        service = PriceService(await connection.channel(), {"tea": 4})
        await service.start()
        client = PriceClient(await connection.channel())
        await client.start()
        print(f"  tea costs {await client.price_of('tea')}")
        await broker.aio.wait_idle()
        print_messages(broker)
