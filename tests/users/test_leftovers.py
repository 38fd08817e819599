"""What a client leaves behind: messages that nobody acknowledged, connections and channels that nobody closed."""

from __future__ import annotations

import aio_pika
import pika
import pytest

from leveret import Broker
from tests.users.conftest import told


def test_sarracenia_1169_messages_left_unacknowledged_are_named_at_the_end(broker, asker):
    broker.declare_queue("orders")
    broker.publish("", "orders", b"1")
    asker.connection.channel().basic_get("orders")

    with told(broker) as texts:
        pass

    (text,) = texts
    assert "unacked_at_end: 1 message" in text


def test_system_tests_4911_connections_not_disposed_of_are_named_where_one_asks_for_it():
    broker = Broker(checks="connection_not_closed=warning").start()
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))

    with told(broker) as texts:
        broker.stop()

    (text,) = texts
    assert "connection_not_closed: 1 connection" in text
    assert "opened at " in text
    del connection


def test_wolverine_3492_channels_that_nobody_closes_are_named_where_one_asks_for_it():
    broker = Broker(checks="channel_not_closed=warning").start()
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection, told(broker) as texts:
        for _ in range(3):
            connection.channel()
    broker.stop()

    (text,) = texts
    assert "channel_not_closed: 3 channels" in text


@pytest.mark.asyncio
async def test_aio_pika_521_what_an_iterator_had_fetched_and_never_handed_out_is_known_to_be_lost(broker):
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
