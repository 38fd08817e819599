"""What a broker does once a year, on demand: a nack, a blocked publisher, an answer that is late."""

from __future__ import annotations

import asyncio

import aio_pika
import amqp
import pika
import pytest
from amqp.exceptions import MessageNacked
from pika.exceptions import ConnectionBlockedTimeout

from tests.users.conftest import PATIENCE


def connect_with_py_amqp(broker, **options):
    address = broker.url.removeprefix("amqp://guest:guest@")
    connection = amqp.Connection(address, connect_timeout=PATIENCE, **options)
    connection.connect()
    return connection


def test_bunny_mock_11_only_the_matching_message_is_nacked(broker):
    broker.declare_queue("work")
    broker.faults.nack_publishes(body=b"2")

    with connect_with_py_amqp(broker, confirm_publish=True) as connection:
        channel = connection.channel()
        channel.basic_publish(amqp.Message("1"), routing_key="work")
        with pytest.raises(MessageNacked):
            channel.basic_publish(amqp.Message("2"), routing_key="work")

    assert [message.text for message in broker.queue("work").ready] == ["1"]


def test_node_amqp_342_a_client_is_notified_when_it_is_blocked_and_unblocked(broker):
    """node-amqp#342, hreinhardt/amqp#82, rabbitmq-server#14660 ("a tough behavior to test"), cony#12."""
    broker.declare_queue("work")
    told = []
    connection = connect_with_py_amqp(
        broker, on_blocked=told.append, on_unblocked=lambda: told.append("go on"), confirm_publish=False
    )
    channel = connection.channel()

    with broker.faults.block_publishers():
        channel.basic_publish(amqp.Message("x"), routing_key="work")
        while not told:
            connection.drain_events(timeout=PATIENCE)
    while len(told) < 2:
        connection.drain_events(timeout=PATIENCE)

    assert told == ["connection blocked, see broker logs", "go on"]
    connection.close()


def test_cloudstack_857_a_blocked_publisher_times_out(broker):
    broker.declare_queue("work")
    parameters = pika.URLParameters(broker.url)
    parameters.blocked_connection_timeout = 0.05
    channel = pika.BlockingConnection(parameters).channel()
    channel.confirm_delivery()
    broker.faults.block_publishers("disk")

    with pytest.raises(ConnectionBlockedTimeout):
        channel.basic_publish("", "work", b"x")


def test_amqpstorm_118_a_message_sent_during_an_alarm_is_not_lost(broker, channel):
    broker.declare_queue("work")
    alarm = broker.faults.block_publishers()
    channel.basic_publish("", "work", b"x")
    assert broker.queue("work").ready == ()

    alarm.remove()

    broker.assert_published("", routing_key="work", body=b"x", timeout=PATIENCE)
    assert len(broker.queue("work").ready) == 1


@pytest.mark.asyncio
async def test_dotnet_1993_a_client_that_times_out_on_consume_ok_leaves_no_consumer(broker):
    """rabbitmq-dotnet-client#1993: the answer came late, and the broker had a consumer that the client did not know of.

    aio-pika closes the channel when it gives up, so that the message comes back. Another client may not.
    """
    broker.clock.hold()
    broker.declare_queue("work")
    broker.publish("", "work", b"x")
    broker.faults.delay("basic.consume-ok", seconds=30)

    async def handle(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        """It may come: what was sent before the client gave up."""

    connection = await aio_pika.connect(broker.url)
    queue = await (await connection.channel()).get_queue("work", ensure=False)

    with pytest.raises(asyncio.TimeoutError):
        await queue.consume(handle, timeout=0.05)

    await broker.aio.assert_requeued("work", body=b"x", timeout=5)
    assert broker.consumers == []
    await connection.close()
