"""How unmodified client libraries react to faults, over real sockets, each used as its users would."""

from __future__ import annotations

import asyncio

import aio_pika
import kombu
import pytest
from aio_pika.exceptions import DeliveryError
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    ProbableAuthenticationError,
    StreamLostError,
)

from tests.faults.conftest import PATIENCE, bodies


def test_aio_pika_reconnects_after_the_connection_is_lost_between_delivery_and_ack(broker):
    rule = broker.faults.reset_peer(on="basic.ack")
    broker.publish("", "work", b"job")

    async def main():
        connection = await aio_pika.connect_robust(broker.url, reconnect_interval=0.01, timeout=PATIENCE)
        channel = await connection.channel()
        queue = await channel.declare_queue("work", durable=True)
        deliveries = asyncio.Queue()
        await queue.consume(deliveries.put)
        first = await asyncio.wait_for(deliveries.get(), PATIENCE)
        await first.ack()
        second = await asyncio.wait_for(deliveries.get(), PATIENCE)
        await second.ack()
        await broker.aio.wait_idle()
        await connection.close()
        return [(message.body, message.redelivered) for message in (first, second)]

    assert asyncio.run(main()) == [(b"job", False), (b"job", True)]
    assert rule.fired == 1
    broker.assert_acked("work", body=b"job", times=1)


def test_aio_pika_raises_for_a_nacked_publish(broker):
    broker.faults.nack_publishes(body=b"no")

    async def main():
        async with await aio_pika.connect(broker.url, timeout=PATIENCE) as connection:
            channel = await connection.channel()
            await channel.default_exchange.publish(aio_pika.Message(b"yes"), "work")
            with pytest.raises(DeliveryError):
                await channel.default_exchange.publish(aio_pika.Message(b"no"), "work")

    asyncio.run(main())
    assert bodies(broker) == [b"yes"]


def test_aio_pika_gives_up_on_a_confirm_that_never_comes(broker):
    broker.faults.withhold_confirms()

    async def main():
        async with await aio_pika.connect(broker.url, timeout=PATIENCE) as connection:
            channel = await connection.channel()
            with pytest.raises(asyncio.TimeoutError):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), "work", timeout=0.05)

    asyncio.run(main())
    assert bodies(broker) == [b"x"]


def test_aio_pika_waits_for_a_reply_that_the_brokers_clock_delays(broker):
    broker.clock.hold()
    broker.faults.delay("queue.declare-ok", seconds=3600, times=1)

    async def main():
        async with await aio_pika.connect(broker.url, timeout=PATIENCE) as connection:
            channel = await connection.channel()
            declaring = asyncio.ensure_future(channel.declare_queue("new", durable=True))
            while not any(queue.name == "new" for queue in broker.queues):
                await asyncio.wait([declaring], timeout=0.01)
            assert not declaring.done()
            await broker.aio.clock.advance(3600)
            return (await asyncio.wait_for(declaring, PATIENCE)).name

    assert asyncio.run(main()) == "new"


def test_pika_learns_of_a_nacked_publish(broker, channel):
    channel.confirm_delivery()
    rule = broker.faults.nack_publishes(after=2, times=1)

    channel.basic_publish("", "work", b"1")
    channel.basic_publish("", "work", b"2")
    with pytest.raises(NackError):
        channel.basic_publish("", "work", b"3")
    channel.basic_publish("", "work", b"4")

    assert rule.fired == 1
    assert bodies(broker) == [b"1", b"2", b"4"]
    assert broker.assert_nacked("", timeout=5).body == b"3"
    assert [message.body for message in broker.assert_confirmed("", times=3)] == [b"1", b"2", b"4"]


def test_pika_is_notified_when_it_is_blocked_and_unblocked(broker, connect):
    connection = connect()
    told = []
    connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda _, frame: told.append("go on"))
    channel = connection.channel()
    rule = broker.faults.block_publishers()

    channel.basic_publish("", "work", b"x")
    while not told:
        connection.process_data_events(PATIENCE)
    rule.remove()
    while len(told) < 2:
        connection.process_data_events(PATIENCE)

    assert told == ["low on memory", "go on"]
    assert bodies(broker) == [b"x"]


def test_pika_raises_the_reply_code_of_a_closed_channel(broker, channel):
    broker.faults.close_channel(403, "not you", on="queue.declare")

    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare("new", durable=True)

    assert (closed.value.reply_code, closed.value.reply_text) == (403, "ACCESS_REFUSED - not you")


def test_pika_raises_the_reply_code_of_a_closed_connection(broker, channel):
    broker.faults.close_connection(320, "bye", on="queue.declare")

    with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - bye"):
        channel.queue_declare("new", durable=True)


def test_pika_loses_its_connection_after_a_publish_that_was_accepted(broker, channel):
    channel.confirm_delivery()
    broker.faults.reset_peer(on="basic.publish", when="after")

    with pytest.raises(StreamLostError):
        channel.basic_publish("", "work", b"x")

    assert bodies(broker) == [b"x"]


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("reset", (AMQPConnectionError, ValueError)),
        ("login", ProbableAuthenticationError),
        ("close", AMQPConnectionError),
    ],
)
def test_pika_cannot_connect_until_the_rule_is_removed(broker, connect, how, error):
    with broker.faults.refuse_connections(how), pytest.raises(error):
        connect()

    assert connect().is_open


def test_pika_is_notified_that_its_consumer_is_cancelled(broker, channel):
    channel.basic_consume("work", lambda *_: None)
    cancelled = []
    channel.add_on_cancel_callback(cancelled.append)

    broker.faults.cancel_consumers(queue="work")
    channel.connection.process_data_events(PATIENCE)

    assert len(cancelled) == 1


def test_kombu_publishes_again_after_its_connection_was_lost(broker):
    rule = broker.faults.reset_peer(on="basic.publish")

    with kombu.Connection(broker.url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer()
        producer.publish("x", routing_key="work", retry=True, retry_policy={"max_retries": 3, "interval_start": 0})

    assert rule.fired == 1
    assert len(bodies(broker)) == 1


def test_a_reset_forgets_the_faults(broker):
    broker.faults.reset_peer(on="basic.ack", optional=True)

    broker.reset()

    assert broker.faults.rules == []


def test_aio_pika_never_gets_a_reply_that_is_withheld(broker):
    broker.faults.withhold("queue.declare-ok", channel=1)

    async def main():
        async with await aio_pika.connect(broker.url, timeout=PATIENCE) as connection:
            channel, other = await connection.channel(), await connection.channel()
            declaring = asyncio.ensure_future(channel.declare_queue("new", durable=True))
            # Later replies on the same connection have been read.
            while not any(queue.name == "new" for queue in broker.queues):
                await other.declare_queue("other", durable=True)
            await other.declare_queue("other", durable=True)
            is_answered = declaring.done()
            declaring.cancel()
            return is_answered

    assert not asyncio.run(main())


def test_aio_pika_waits_for_a_confirm_that_the_brokers_clock_delays(broker):
    broker.clock.hold()
    broker.faults.delay_confirms(seconds=60)

    async def main():
        async with await aio_pika.connect(broker.url, timeout=PATIENCE) as connection:
            channel = await connection.channel()
            publishing = asyncio.ensure_future(channel.default_exchange.publish(aio_pika.Message(b"x"), "work"))
            await broker.aio.assert_published("", timeout=PATIENCE)
            await broker.aio.clock.advance(59)
            is_early = publishing.done()
            await broker.aio.clock.advance(1)
            await asyncio.wait_for(publishing, PATIENCE)
            return is_early

    assert not asyncio.run(main())
