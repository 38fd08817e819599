"""Waiting until everything is done, without a sleep that is too long or too short."""

from __future__ import annotations

import threading

import aio_pika
import pytest

from leveret import WaitTimeoutError
from tests.users.conftest import PATIENCE, consume_until_lost


@pytest.mark.asyncio
async def test_infrahub_10505_a_round_trip_is_awaited_without_a_sleep(broker):
    logged = []

    async def log(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        async with message.process():
            logged.append(f"Received message: {message.body.decode()}")

    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("events", durable=True)
        await queue.consume(log)
        await channel.default_exchange.publish(aio_pika.Message(b"Hello there"), "events")

        await broker.aio.wait_idle()

        assert logged == ["Received message: Hello there"]


def test_clickhouse_22380_every_row_has_arrived_after_wait_idle(broker, work, channel):
    rows = []
    work("rows", lambda channel, body: rows.append(body))
    for number in range(500):
        channel.basic_publish("", "rows", b"%d" % number)

    broker.wait_idle()

    assert rows == [b"%d" % number for number in range(500)]


def test_smallrye_3471_a_message_is_sent_after_its_consumer_has_subscribed(broker):
    """smallrye#3471 and quarkus-quickstarts#1638: the message was sent before the worker had declared its queue."""
    requests = []

    def answer(channel, body):
        requests.append(body)
        channel.stop_consuming()

    worker = threading.Thread(target=consume_until_lost, args=(broker.url, "quote-requests", answer))
    worker.start()

    broker.wait_for_consumer("quote-requests")
    broker.publish("", "quote-requests", b"a quote, please")

    broker.assert_delivered("quote-requests", timeout=5)
    worker.join(PATIENCE)
    assert requests == [b"a quote, please"]


def test_nameko_371_an_assertion_with_times_counts_exactly(broker, work):
    work("jobs", lambda channel, body: None)
    for body in (b"1", b"2"):
        broker.publish("", "jobs", body)

    broker.assert_acked("jobs", times=2, timeout=5)
    broker.publish("", "jobs", b"3")
    broker.wait_idle()

    with pytest.raises(AssertionError, match="3"):
        broker.assert_acked("jobs", times=2)


def test_masstransit_2009_a_slow_consumer_is_not_idle(broker, work):
    may_end = threading.Event()
    work("jobs", lambda channel, body: may_end.wait(PATIENCE))
    broker.publish("", "jobs", b"long")

    with pytest.raises(WaitTimeoutError, match="1 unacked on jobs held by"):
        broker.wait_idle(timeout=0.05)
    may_end.set()
    broker.wait_idle()

    broker.assert_acked("jobs", body=b"long", times=1)


def test_masstransit_6125_messages_between_consumers_are_in_flight_too(broker, work):
    work("third", lambda channel, body: None)
    work("second", lambda channel, body: channel.basic_publish("", "third", body))
    work("first", lambda channel, body: channel.basic_publish("", "second", body))
    broker.publish("", "first", b"x")

    broker.wait_idle()

    broker.assert_acked("third", body=b"x", times=1)


def test_masstransit_3584_wait_idle_can_be_called_repeatedly(broker, work):
    work("jobs", lambda channel, body: None)

    for count in (1, 2, 3):
        broker.publish("", "jobs", b"x")
        broker.wait_idle()
        broker.assert_acked("jobs", times=count)


def test_masstransit_3619_each_of_five_messages_sent_at_once_is_awaited(broker, work):
    work("events", lambda channel, body: None)
    work("saga", lambda channel, body: [channel.basic_publish("", "events", b"%d" % number) for number in range(5)])
    broker.publish("", "saga", b"begin")

    for number in range(5):
        broker.assert_acked("events", body=b"%d" % number, timeout=5)


def test_touchstone_52_a_failing_assertion_shows_exchange_and_key(broker):
    broker.declare_exchange("orders")
    broker.declare_queue("orders")
    broker.publish("", "orders", b"1")

    with pytest.raises(AssertionError, match=r"(?s)assert_published\('orders'.*''.*'orders'"):
        broker.assert_published("orders", routing_key="orders", timeout=0.01)
