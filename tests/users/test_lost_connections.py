"""A connection that is lost, at the moment that hurts, and what a client makes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import aio_pika
import pika
import pytest
from pika.exceptions import StreamLostError

from tests.users.conftest import PATIENCE


@dataclass
class RobustConsumer:
    """A robust connection of aio-pika, what its consumer of `work` gets, and when it was restored."""

    connection: aio_pika.abc.AbstractRobustConnection
    # The connection holds its channels by weak references, so keep the channel or it is not restored.
    channel: aio_pika.abc.AbstractChannel
    deliveries: asyncio.Queue = field(default_factory=asyncio.Queue)
    restored: asyncio.Event = field(default_factory=asyncio.Event)

    async def delivery(self):
        return await asyncio.wait_for(self.deliveries.get(), PATIENCE)


async def robust_consumer(url):
    connection = await aio_pika.connect_robust(url, reconnect_interval=0.01, timeout=PATIENCE)
    consumer = RobustConsumer(connection, await connection.channel())
    connection.reconnect_callbacks.add(lambda *_: consumer.restored.set())
    queue = await consumer.channel.declare_queue("work", durable=True)
    await queue.consume(consumer.deliveries.put, no_ack=True)
    return consumer


@pytest.mark.asyncio
async def test_aio_pika_231_a_robust_consumer_continues_after_a_connection_reset(broker):
    """aio-pika#231, #90 and #626. Its maintainer asked: "How can I reproduce the 'connection lost' part?\""""
    consumer = await robust_consumer(broker.url)

    broker.faults.reset_peer()
    await asyncio.wait_for(consumer.restored.wait(), PATIENCE)
    broker.publish("", "work", b"after")

    assert (await consumer.delivery()).body == b"after"
    await consumer.connection.close()


@pytest.mark.asyncio
async def test_aio_pika_632_a_robust_consumer_continues_after_the_broker_was_down(broker):
    consumer = await robust_consumer(broker.url)

    attempts = broker.faults.refuse_connections(times=3)
    broker.faults.reset_peer()
    await asyncio.wait_for(consumer.restored.wait(), PATIENCE)
    broker.publish("", "work", b"after")

    assert attempts.fired == 3
    assert (await consumer.delivery()).body == b"after"
    await consumer.connection.close()


@pytest.mark.asyncio
async def test_aio_pika_334_a_test_sees_that_a_cancelled_consumer_is_not_recovered(broker):
    """The report is open: aio-pika does not consume again, and says nothing. A test can show it in two lines."""
    consumer = await robust_consumer(broker.url)

    broker.faults.cancel_consumers(queue="work")
    await (await consumer.connection.channel()).declare_queue("other", durable=True)
    broker.publish("", "work", b"unheard")

    assert broker.consumers == []
    assert [message.body for message in broker.queue("work").ready] == [b"unheard"]
    assert consumer.deliveries.empty()
    await consumer.connection.close()


def test_dotnet_1522_retrying_after_a_lost_confirm_publishes_twice(broker, channel):
    """rabbitmq-dotnet-client#1519 and #1522: the connection closed between a publish and its confirm."""
    broker.declare_queue("work")
    channel.confirm_delivery()
    broker.faults.reset_peer(on="basic.ack", sent_by="broker")

    with pytest.raises(StreamLostError):
        channel.basic_publish("", "work", b"x")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        connection.channel().basic_publish("", "work", b"x")

    assert [message.body for message in broker.queue("work").ready] == [b"x", b"x"]


@pytest.mark.parametrize(
    "lose",
    [
        lambda faults: faults.reset_peer(),
        lambda faults: faults.half_close(),
        lambda faults: faults.close_connection(320),
        lambda faults: faults.close_channel(406),
        lambda faults: faults.cancel_consumers(),
        lambda faults: faults.restart(),
    ],
    ids=["connection lost", "half of it", "connection closed", "channel closed", "consumer cancelled", "restart"],
)
def test_message_cannon_12_a_consumer_reconnects_after_every_kind_of_loss(broker, work, lose):
    """message-cannon#12, gen_rmq#10, wire-server#4736 ("press enter"), osparc#4308, noddde#105, comq#221, RawRabbit#16,
    perf-test#106: channels and connections that close, for a test of the consumer that has to come back."""
    handled = []
    work("jobs", lambda channel, body: handled.append(body))

    lose(broker.faults)
    broker.publish("", "jobs", b"after")

    broker.assert_acked("jobs", body=b"after", timeout=5)
    assert handled == [b"after"]


def test_message_cannon_12_a_job_runs_again_if_its_ack_was_lost(broker, work):
    handled = []
    work("jobs", lambda channel, body: handled.append(body))
    broker.faults.reset_peer(on="basic.ack")

    broker.publish("", "jobs", b"x")

    broker.assert_acked("jobs", body=b"x", timeout=5)
    assert handled == [b"x", b"x"]
