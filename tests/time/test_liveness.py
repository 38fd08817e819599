"""Heartbeats follow real time: advancing the broker's clock by hours drops no client, unless the test asks for it."""

from __future__ import annotations

import asyncio

import aio_pika
import kombu
import pika
import pytest

from leveret import Broker

# Messages expire on purpose here, also where no queue takes them.
pytestmark = pytest.mark.leveret(checks="expired_into_nothing=off")


def test_a_day_costs_pika_no_connection(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with pika.BlockingConnection(pika.URLParameters(f"{leveret.url}?heartbeat=60")) as connection:
        channel = connection.channel()

        leveret.clock.advance(days=1)

        channel.basic_publish("", "orders", b"x")
        assert channel.basic_get("orders")[2] == b"x"


def test_a_day_costs_kombu_no_connection(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with kombu.Connection(leveret.url, heartbeat=60) as connection:
        queue = connection.SimpleQueue("orders")

        leveret.clock.advance(days=1)

        queue.put("x")
        assert queue.get(timeout=5).payload == "x"
        connection.heartbeat_check()


@pytest.mark.asyncio
async def test_a_day_costs_aio_pika_no_connection(leveret: Broker) -> None:
    async with await aio_pika.connect(leveret.url, heartbeat=60) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("orders", durable=True)

        await leveret.aio.clock.advance(days=1)

        await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
        assert (await queue.get()).body == b"x"


def test_a_day_of_jumps_costs_no_connection(leveret: Broker) -> None:
    leveret.declare_queue("orders", arguments={"x-message-ttl": 86_400_000})
    with pika.BlockingConnection(pika.URLParameters(f"{leveret.url}?heartbeat=60")), leveret.clock.autojump():
        leveret.publish("", "orders")
        leveret.assert_dropped("orders", timeout=5)

        assert len(leveret.connections) == 1


def test_advance_with_heartbeats_drops_a_client_silent_for_three_intervals(leveret: Broker) -> None:
    """The client does not service this connection, as if a job blocked the thread that sends heartbeats."""
    with_heartbeat = pika.URLParameters(f"{leveret.url}?heartbeat=60")
    connection = pika.BlockingConnection(with_heartbeat)

    leveret.clock.advance(seconds=170, heartbeats=True)
    assert len(leveret.connections) == 1
    # The broker checks twice an interval.
    leveret.clock.advance(seconds=60, heartbeats=True)

    assert leveret.connections == []
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.process_data_events(time_limit=5)


def test_a_silent_client_is_dropped_after_a_reset_of_a_broker_whose_time_had_moved(leveret: Broker) -> None:
    leveret.clock.advance(days=1)
    leveret.reset()
    pika.BlockingConnection(pika.URLParameters(f"{leveret.url}?heartbeat=60"))

    leveret.clock.advance(minutes=5, heartbeats=True)

    assert leveret.connections == []


def test_a_message_held_by_a_silent_client_is_requeued(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    leveret.publish("", "orders", b"x")
    connection = pika.BlockingConnection(pika.URLParameters(f"{leveret.url}?heartbeat=60"))
    connection.channel().basic_get("orders")

    leveret.clock.advance(minutes=5, heartbeats=True)

    assert leveret.queue("orders").ready[0].redelivered
    leveret.assert_requeued("orders", reason="channel_closed", body=b"x")


def test_the_handshake_timeout_follows_real_time(leveret: Broker) -> None:
    async def greet() -> bytes:
        reader, writer = await asyncio.open_connection(leveret.host, leveret.port)
        await leveret.aio.clock.advance(hours=1)
        writer.write(b"AMQP\x00\x00\x09\x01")
        first = await asyncio.wait_for(reader.readexactly(1), 5)
        writer.close()
        return first

    assert asyncio.run(greet()) == b"\x01"
