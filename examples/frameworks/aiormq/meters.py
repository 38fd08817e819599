"""A collector of meter readings with aiormq, which leaves connecting again and retrying to its user.

Readings expire after an hour, when no report uses them any more. A reading that the database cannot take now is held
for ten seconds in `readings.later`. What cannot be read is set aside.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import aiormq
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

LATER = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "readings", "x-message-ttl": 10_000}
FAILED = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "readings.failed"}


class DatabaseBusyError(Exception):
    """The database cannot take a reading now."""


class Collector:
    """The collector: `run` consumes until it is cancelled, and connects again if the connection is lost."""

    def __init__(self, amqp_url: str, store: Callable[[str, float], Awaitable[None]]) -> None:
        """`store` gets the meter and the value of each reading."""
        self.amqp_url = amqp_url
        self.store = store

    async def run(self) -> None:
        """Consume; raise aiormq.exceptions.AMQPConnectionError if the broker cannot be reached."""
        while True:
            connection = await aiormq.connect(self.amqp_url)
            try:
                self.channel = await connection.channel()
                await self.channel.basic_qos(prefetch_count=100)
                await self.channel.queue_declare("readings.failed", durable=True)
                await self.channel.queue_declare("readings.later", durable=True, arguments=LATER)
                await self.channel.queue_declare("readings", durable=True, arguments=FAILED)
                await self.channel.basic_consume("readings", self.on_reading)
                await asyncio.wait([connection.closing])
            finally:
                await connection.close()

    async def on_reading(self, message: DeliveredMessage) -> None:
        """Store one reading, keep it for later, or set it aside."""
        tag = message.delivery.delivery_tag
        try:
            reading = json.loads(message.body)
            await self.store(reading["meter"], float(reading["value"]))
        except DatabaseBusyError:
            await self.channel.basic_publish(message.body, routing_key="readings.later")
            await self.channel.basic_ack(tag)
        except (ValueError, KeyError, TypeError):
            await self.channel.basic_reject(tag, requeue=False)
        else:
            await self.channel.basic_ack(tag)


async def send_reading(amqp_url: str, meter: str, value: float) -> None:
    """Send one reading and wait until the broker has it."""
    connection = await aiormq.connect(amqp_url)
    try:
        channel = await connection.channel(publisher_confirms=True)
        body = json.dumps({"meter": meter, "value": value}).encode()
        properties = Basic.Properties(delivery_mode=2, expiration="3600000")
        await channel.basic_publish(body, routing_key="readings", properties=properties)
    finally:
        await connection.close()
