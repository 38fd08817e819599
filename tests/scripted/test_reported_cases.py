"""What users have asked for in other projects, each shown solved, with their clients and by the name of the report.

A message that disappears (nobody reported it), a reply that has to be canned, a message that was never acknowledged:
the wishes behind these reports are older than this broker.
"""

from __future__ import annotations

import asyncio
import json
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import aio_pika
import kombu
import pika
import pytest

from leveret import Broker, LeveretWarning

PATIENCE = 5


@contextmanager
def told(broker: Broker) -> Iterator[list[str]]:
    """What the checks say at the end of the block."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeveretWarning)
        yield texts
        broker.check()
    texts += [str(one.message) for one in caught if one.category is LeveretWarning]


async def ask_with_aio_pika(url: str, queue: str, body: bytes, timeout: float = PATIENCE) -> bytes:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        replies = await channel.declare_queue(exclusive=True)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def on_reply(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            if message.correlation_id == request.correlation_id:
                answered.set_result(message.body)

        await replies.consume(on_reply, no_ack=True)
        request = aio_pika.Message(body, correlation_id=str(uuid.uuid4()), reply_to=replies.name)
        await channel.default_exchange.publish(request, routing_key=queue)
        return await asyncio.wait_for(answered, timeout)


def test_aio_pika_514_a_request_over_rpc_gets_a_canned_response(broker):
    with broker.respond("prices", {"price": 42}) as prices:
        body = asyncio.run(ask_with_aio_pika(broker.url, "prices", b"a book"))

    assert json.loads(body) == {"price": 42}
    assert [request.text for request in prices.requests] == ["a book"]


def test_aio_pika_514_nothing_has_to_be_slept_for_when_a_service_never_answers(broker):
    broker.respond("prices", timeout=True)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(ask_with_aio_pika(broker.url, "prices", b"a book", timeout=0.05))


def test_rabbitmq_mock_78_one_response_after_the_other_for_pika(broker, asker):
    broker.respond("prices", ["1", ValueError("sold out"), lambda request: request.body.upper()])

    assert asker.answer("prices") == b"1"
    assert b"sold out" in asker.answer("prices")
    assert asker.answer("prices", b"a book") == b"A BOOK"


def test_faststream_2074_a_nacked_message_of_a_scripted_consumer_comes_back_instead_of_hanging(broker):
    broker.declare_queue("orders")
    consumer = broker.consume("orders", prefetch=1)
    broker.publish("", "orders", b"1")

    consumer.next().nack()

    assert consumer.next(timeout=1).redelivered


def test_kombu_gets_a_canned_response_that_it_decodes(broker):
    broker.respond("prices", {"price": 42})
    replies = []
    with kombu.Connection(broker.url) as connection, connection.channel() as channel:
        queue = kombu.Queue("replies", exclusive=True)
        consumer = kombu.Consumer(channel, [queue], callbacks=[lambda body, message: replies.append(body)], no_ack=True)
        with consumer:
            kombu.Producer(channel).publish({"title": "a book"}, routing_key="prices", reply_to=queue.name)
            connection.drain_events(timeout=PATIENCE)

    assert replies == [{"price": 42}]


def test_aio_pika_317_an_exception_in_a_handler_of_the_test_fails_it(broker):
    def answer(request):
        assert request.json["title"] == "another book"

    broker.respond("prices", answer)
    asyncio.run(ask_with_aio_pika(broker.url, "prices", b'{"title": "a book"}'))
    broker.wait_idle()

    with pytest.raises(AssertionError, match="another book"):
        broker.check()


def test_aio_pika_78_a_message_published_nowhere_is_visible(broker):
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


def test_nestjs_453_a_message_that_expires_silently_is_visible(broker, asker):
    broker.declare_queue("orders")
    asker.connection.channel().basic_publish("", "orders", b"1", pika.BasicProperties(expiration="1000"))
    with told(broker) as texts:
        broker.clock.advance(2)

    (text,) = texts
    assert "expired_into_nothing: 1 message" in text
    assert "in queue 'orders'" in text


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


def test_touchstone_52_a_failing_assertion_shows_exchange_and_key(broker):
    broker.declare_exchange("orders")
    broker.declare_queue("orders")
    broker.publish("", "orders", b"1")

    with pytest.raises(AssertionError, match=r"(?s)assert_published\('orders'.*''.*'orders'"):
        broker.assert_published("orders", routing_key="orders", within=0.01)
