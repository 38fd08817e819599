"""What a client leaves behind: unacknowledged messages, open connections and channels."""

from __future__ import annotations

import aio_pika
import pika
import pytest

from leveret import Broker
from tests.users.conftest import told


def test_sarracenia_1169_unacknowledged_messages_are_reported_at_the_end(broker, asker):
    broker.declare_queue("orders")
    broker.publish("", "orders", b"1")
    asker.connection.channel().basic_get("orders")

    with told(broker) as texts:
        pass

    (text,) = texts
    assert "unacked_at_end: 1 message" in text


def test_system_tests_4911_open_connections_are_reported_on_request():
    broker = Broker(checks="connection_not_closed=warning").start()
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))

    with told(broker) as texts:
        broker.stop()

    (text,) = texts
    assert "connection_not_closed: 1 connection" in text
    assert "opened at " in text
    del connection


def test_wolverine_3492_open_channels_are_reported_on_request():
    broker = Broker(checks="channel_not_closed=warning").start()
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection, told(broker) as texts:
        for _ in range(3):
            connection.channel()
    broker.stop()

    (text,) = texts
    assert "channel_not_closed: 3 channels" in text


@pytest.mark.asyncio
async def test_aio_pika_521_messages_that_an_iterator_prefetched_are_reported_as_lost(broker):
    broker.declare_queue("orders")
    for number in range(3):
        broker.publish("", "orders", b"%d" % number)

    async with await aio_pika.connect(broker.url) as connection:
        queue = await (await connection.channel()).get_queue("orders", ensure=False)
        async with queue.iterator(no_ack=True) as messages:
            handled = [await anext(messages)]

    assert [message.body for message in handled] == [b"0"]
    broker.assert_delivered("orders", times=3)
    broker.assert_empty("orders")
