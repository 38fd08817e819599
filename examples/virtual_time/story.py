"""a webhook without a receiver is retried after 1 minute, 10 minutes and 1 hour; time jumps whenever all is idle"""

from __future__ import annotations

import asyncio
from typing import Any

import aio_pika

from examples.telling import print_messages
from examples.virtual_time.webhooks import UNDELIVERED, WEBHOOKS, Sender
from leveret import Broker


def tell() -> None:
    """Give a sender one webhook whose receiver is always down."""
    asyncio.run(deliver())


async def deliver() -> None:
    """Wait until the webhook is set aside: more than an hour later on the broker's clock, at once for the test."""
    with Broker() as broker:
        async with await aio_pika.connect(broker.url) as connection:
            await Sender(await connection.channel(), refuse).start()
            with broker.clock.autojump():
                broker.publish(routing_key=WEBHOOKS, json={"url": "https://example.com/hook", "payload": {"id": 7}})
                await broker.aio.assert_published("", routing_key=UNDELIVERED, timeout=5)
        print_messages(broker)


async def refuse(url: str, payload: Any) -> None:
    """Refuse every webhook."""
    raise ConnectionError(url)
