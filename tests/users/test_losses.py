"""A message that disappears without an error."""

from __future__ import annotations

import asyncio

import aio_pika
import aiormq
import kombu
import pika
import pytest
from aiormq.exceptions import PublishError
from pika.exceptions import UnroutableError

from tests.users.conftest import told


def test_aio_pika_78_a_message_that_reaches_no_queue_is_reported(broker):
    async def publish() -> None:
        connection = await aio_pika.connect(broker.url)
        async with connection:
            channel = await connection.channel(publisher_confirms=False)
            await channel.default_exchange.publish(aio_pika.Message(b"1"), routing_key="nowhere", mandatory=False)

    with told(broker) as texts:
        asyncio.run(publish())

    (text,) = texts
    assert "unroutable: 1 message" in text
    assert "'' 'nowhere' '1', published by" in text


def test_nestjs_453_a_message_that_expires_silently_is_reported(broker, asker):
    broker.declare_queue("orders")
    asker.connection.channel().basic_publish("", "orders", b"1", pika.BasicProperties(expiration="1000"))
    with told(broker) as texts:
        broker.clock.advance(2)

    (text,) = texts
    assert "expired_into_nothing: 1 message" in text
    assert "in queue 'orders'" in text


def test_dapr_4257_a_publish_to_an_exchange_without_bindings_is_reported(broker):
    with told(broker) as texts, kombu.Connection(broker.url) as connection:
        orders = kombu.Exchange("orders", "topic")
        connection.Producer(exchange=orders, auto_declare=True).publish({"id": 7}, routing_key="order.created")

    (text,) = texts
    assert "unroutable: 1 message" in text
    assert "'orders' has no bindings" in text


def test_amqplib_184_an_unroutable_message_raises_although_it_is_confirmed(broker, channel):
    channel.confirm_delivery()

    with pytest.raises(UnroutableError):
        channel.basic_publish("", "nowhere", b"1", mandatory=True)

    broker.assert_returned("", routing_key="nowhere", body=b"1")


def test_aiormq_9_a_return_is_sent_before_the_confirm_of_the_same_message(broker):
    async def publish():
        connection = await aiormq.connect(broker.url)
        channel = await connection.channel()
        with pytest.raises(PublishError, match="NO_ROUTE"):
            await channel.basic_publish(b"1", routing_key="nowhere", mandatory=True)
        await connection.close()

    asyncio.run(publish())

    kinds = [event.kind for event in broker.events.query() if event.kind in ("returned", "confirmed")]
    assert kinds == ["returned", "confirmed"]
