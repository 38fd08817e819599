"""Bugs of services that use aio-pika. They run on threads of the test, and a lost connection finds them."""

from __future__ import annotations

import asyncio

import aio_pika

from tests.explore.crashes.planted import Planted


async def send(channel, queue, body):
    """Publish a persistent message."""
    message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    await channel.default_exchange.publish(message, queue)


class AckThenAwait(Planted):
    """The ack comes first, and the work is awaited after it."""

    last = "shipped"

    @staticmethod
    async def bug(channel, memory):
        async def ship(order):
            await order.ack()
            await send(channel, "shipped", order.body)

        await (await channel.get_queue("orders")).consume(ship)

    @staticmethod
    async def twin(channel, memory):
        async def ship(order):
            await send(channel, "shipped", order.body)
            await order.ack()

        await (await channel.get_queue("orders")).consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class FireAndForget(Planted):
    """A task that is never awaited publishes the event, while the order is acknowledged."""

    last = "shipped"

    @staticmethod
    async def bug(channel, memory):
        async def ship(order):
            memory["task"] = asyncio.create_task(send(channel, "shipped", order.body))
            await order.ack()

        await (await channel.get_queue("orders")).consume(ship)

    @staticmethod
    async def twin(channel, memory):
        async def ship(order):
            await asyncio.create_task(send(channel, "shipped", order.body))
            await order.ack()

        await (await channel.get_queue("orders")).consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class QueueInMemory(Planted):
    """The handler puts orders into a queue of the event loop and acknowledges; the connection's task empties it."""

    last = "shipped"

    @staticmethod
    async def bug(channel, memory):
        async def note(order):
            await order.ack()
            waiting.put_nowait(order.body)

        async def work():
            while True:
                await send(channel, "shipped", await waiting.get())

        waiting = asyncio.Queue()
        memory["task"] = asyncio.create_task(work())
        await (await channel.get_queue("orders")).consume(note)

    @staticmethod
    async def twin(channel, memory):
        async def work():
            while True:
                order = await waiting.get()
                await send(channel, "shipped", order.body)
                await order.ack()

        waiting = asyncio.Queue()
        memory["task"] = asyncio.create_task(work())
        await (await channel.get_queue("orders")).consume(waiting.put)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class NoAck(Planted):
    """Orders are consumed with no_ack=True."""

    on = ("basic.deliver", "basic.publish")

    last = "shipped"

    @staticmethod
    async def bug(channel, memory):
        async def ship(order):
            await send(channel, "shipped", order.body)

        await (await channel.get_queue("orders")).consume(ship, no_ack=True)

    @staticmethod
    async def twin(channel, memory):
        async def ship(order):
            async with order.process(requeue=True):
                await send(channel, "shipped", order.body)

        await (await channel.get_queue("orders")).consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}
