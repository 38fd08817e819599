"""Messages that are returned to a client: the check reports those that the client drops."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from abc import ABCMeta
from contextlib import suppress

import aio_pika
import aiormq
import pika
import pytest
from faststream.rabbit import RabbitBroker

from leveret import Broker

URL_OF = "import pika, sys\nchannel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()\n"


async def with_aio_pika(broker, **options):
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel(**options)
        with suppress(aiormq.exceptions.PublishError):
            await channel.default_exchange.publish(aio_pika.Message(b"7"), "ordrs")
        # The client has read the return once it has the answer to this.
        await channel.set_qos(1)


async def with_a_callback_of_aio_pika(broker):
    async with await aio_pika.connect_robust(broker.url) as connection:
        channel = await connection.channel()
        channel.return_callbacks.add(lambda *_: None)
        await channel.default_exchange.publish(aio_pika.Message(b"7"), "ordrs")


async def with_faststream(broker):
    async with RabbitBroker(broker.url) as app:
        await app.publish(b"7", "ordrs")


async def with_aiormq(broker):
    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()
    with suppress(aiormq.exceptions.PublishError):
        await channel.basic_publish(b"7", routing_key="ordrs", mandatory=True)
    await connection.close()


async def with_pika(broker, prepare=lambda channel: None):
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        prepare(channel)
        with suppress(pika.exceptions.UnroutableError):
            channel.basic_publish("", "ordrs", b"7", mandatory=True)
        # The client has read the return once it has the answer to this.
        channel.basic_qos(prefetch_count=1)
        connection.process_data_events(0)


async def with_a_callback_of_pika(broker):
    await with_pika(broker, lambda channel: channel.add_on_return_callback(lambda *_: None))


async def with_confirms_of_pika(broker):
    await with_pika(broker, lambda channel: channel.confirm_delivery())


async def with_errors_of_aio_pika(broker):
    await with_aio_pika(broker, on_return_raises=True)


async def without_confirms_of_aio_pika(broker):
    await with_aio_pika(broker, publisher_confirms=False)


@pytest.mark.parametrize("publish", [with_aio_pika, without_confirms_of_aio_pika, with_faststream, with_pika])
def test_a_returned_message_that_the_client_drops_is_reported(publish, found):
    with Broker() as broker:
        asyncio.run(publish(broker))

        text = found(broker)["unroutable"]

    assert "1 message lost: routed to no queue, unnoticed by the publisher" in text
    assert "there is no queue 'ordrs', nor any other; it was returned as mandatory, and the client drops that" in text


@pytest.mark.parametrize(
    "publish",
    [
        *(with_a_callback_of_aio_pika, with_errors_of_aio_pika, with_aiormq),
        *(with_a_callback_of_pika, with_confirms_of_pika),
    ],
)
def test_a_client_that_raises_or_calls_back_for_a_return_is_no_finding(publish, found):
    with Broker() as broker:
        asyncio.run(publish(broker))

        assert [event.kind for event in broker.events].count("returned") == 1
        assert "unroutable" not in found(broker)


def test_a_return_that_the_test_asserts_is_no_finding(found):
    with Broker() as broker:
        asyncio.run(with_aio_pika(broker))
        broker.assert_returned("", routing_key="ordrs")

        assert "unroutable" not in found(broker)


def test_a_return_to_a_client_in_another_process_is_no_finding(found):
    # Of an earlier test, whose broker has stopped before the client closed.
    with Broker(checks="off") as earlier:
        left = pika.BlockingConnection(pika.URLParameters(earlier.url)).channel()

    with Broker() as broker:
        program = URL_OF + "channel.basic_publish('', 'ordrs', b'7', mandatory=True)\nchannel.connection.close()"
        subprocess.run([sys.executable, "-c", program, broker.url], check=True, timeout=60)

        assert left.is_open
        assert [event.kind for event in broker.events].count("returned") == 1
        assert "unroutable" not in found(broker)


def test_no_abstract_class_is_asked_about_what_else_lives_in_the_process(monkeypatch):
    # CPython 3.11 crashes if an abstract class is asked about a class that is being collected.
    asked = []

    class Channel(pika.channel.Channel, metaclass=ABCMeta):
        @classmethod
        def __subclasshook__(cls, other):
            asked.append(other)
            return NotImplemented

    monkeypatch.setattr("pika.channel.Channel", Channel)
    with Broker(checks="off") as broker:
        asyncio.run(with_pika(broker))

    assert asked == []
