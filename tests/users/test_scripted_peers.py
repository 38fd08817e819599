"""A reply that has to be canned, a consumer that does what the test says: a peer that the test plays itself."""

from __future__ import annotations

import asyncio
import json
import uuid

import aio_pika
import kombu
import pytest

from tests.users.conftest import PATIENCE


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


def test_aio_pika_514_a_service_that_never_answers_needs_no_sleep(broker):
    broker.respond("prices", None)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(ask_with_aio_pika(broker.url, "prices", b"a book", timeout=0.05))


def test_rabbitmq_mock_78_pika_gets_several_responses_in_sequence(broker, asker):
    broker.respond("prices", ["1", ValueError("sold out"), lambda request: request.body.upper()])

    assert asker.answer("prices") == b"1"
    assert b"sold out" in asker.answer("prices")
    assert asker.answer("prices", b"a book") == b"A BOOK"


def test_faststream_2074_a_nacked_message_is_redelivered_to_a_scripted_consumer(broker):
    broker.declare_queue("orders")
    consumer = broker.consume("orders", prefetch=1)
    broker.publish("", "orders", b"1")

    consumer.next().nack()

    assert consumer.next(timeout=1).redelivered


def test_aio_pika_514_kombu_decodes_a_canned_response(broker):
    broker.respond("prices", {"price": 42})
    replies = []
    with kombu.Connection(broker.url) as connection, connection.channel() as channel:
        queue = kombu.Queue("replies", exclusive=True)
        consumer = kombu.Consumer(channel, [queue], callbacks=[lambda body, message: replies.append(body)], no_ack=True)
        with consumer:
            kombu.Producer(channel).publish({"title": "a book"}, routing_key="prices", reply_to=queue.name)
            connection.drain_events(timeout=PATIENCE)

    assert replies == [{"price": 42}]


def test_aio_pika_317_an_exception_in_a_handler_of_the_test_fails_the_test(broker):
    def answer(request):
        assert request.json["title"] == "another book"

    broker.respond("prices", answer)
    asyncio.run(ask_with_aio_pika(broker.url, "prices", b'{"title": "a book"}'))
    broker.wait_idle()

    with pytest.raises(AssertionError, match="another book"):
        broker.check()
