"""A peer that falls silent, and a connection that stays open."""

from __future__ import annotations

import asyncio

import aio_pika
import pika
import pytest

from leveret import Broker
from tests.users.conftest import PATIENCE, SkippingLoop


@pytest.mark.parametrize("interval", [10, 60])
def test_php_amqplib_354_a_silent_client_is_disconnected_after_three_intervals(leveret: Broker, interval: int) -> None:
    """php-amqplib#354, #473 and #1227, node-amqp#424, amqprs#125, kourier#60: "how to test this (even manually)".

    This is the half of it that the broker sees: the client does not beat, and no real second has to pass.
    """
    client = pika.BlockingConnection(pika.URLParameters(f"{leveret.url}?heartbeat={interval}"))

    # Real time counts too, so an interval is left for what a busy machine takes to come here.
    leveret.clock.advance(seconds=2 * interval, heartbeats=True)
    assert len(leveret.connections) == 1
    leveret.clock.advance(seconds=interval, heartbeats=True)

    assert leveret.connections == []
    # The client has not looked. It must live until here, because the garbage collector would close its socket.
    assert client.is_open


@pytest.mark.parametrize("refusals", [0, 2])
def test_aio_pika_563_a_consumer_continues_after_its_connection_was_stuck(broker, refusals):
    """aio-pika#563 and #577: reproduced with `docker network disconnect`, and three minutes of patience."""
    loop = SkippingLoop()

    async def main():
        connection = await aio_pika.connect_robust(f"{broker.url}?heartbeat=60", reconnect_interval=0.01)
        queue = await (await connection.channel()).declare_queue("work", durable=True)
        deliveries, restored = asyncio.Queue(), asyncio.Event()
        await queue.consume(deliveries.put, no_ack=True)
        connection.reconnect_callbacks.add(lambda *_: restored.set())

        broker.faults.blackhole(connection=1)
        restoring = asyncio.ensure_future(restored.wait())
        if refusals:
            broker.faults.refuse_connections(times=refusals)
        while any(client.number == 1 for client in broker.connections):
            loop.skipped += 100
            await asyncio.wait([restoring], timeout=0.01)
        await asyncio.wait_for(restoring, PATIENCE)

        broker.publish("", "work", b"after")
        message = await asyncio.wait_for(deliveries.get(), PATIENCE)
        await connection.close()
        return message.body

    try:
        assert loop.run_until_complete(main()) == b"after"
    finally:
        loop.close()
