"""Waiting for clients: until the broker is idle, until something happens, and errors when the time is up."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from datetime import UTC, datetime, timedelta

import aio_pika
import pika
import pytest

from leveret import Broker, BrokerError, WaitTimeoutError


def test_a_broker_is_idle_when_a_worker_is_done(broker: Broker, work) -> None:
    broker.declare_queue("orders")
    done = []
    work("orders", lambda channel, body: done.append(body) or "ack")
    for number in range(100):
        broker.publish("", "orders", b"%d" % number)

    broker.wait_idle()

    assert len(done) == 100
    broker.assert_empty("orders")


def test_a_broker_without_clients_is_idle(broker: Broker) -> None:
    broker.declare_queue("orders")
    broker.publish("", "orders", b"nobody wants it")

    broker.wait_idle(timeout=0)


def test_wait_idle_says_why_the_broker_is_not_idle(broker: Broker, work) -> None:
    broker.declare_queue("orders")
    work("orders", lambda channel, body: "keep")
    broker.publish("", "orders", b"x")

    with pytest.raises(WaitTimeoutError, match=r"not idle after 0.05 s: 1 unacked on orders held by worker \(c1/ch1\)"):
        broker.wait_idle(timeout=0.05)


def test_wait_idle_says_that_a_worker_counts_the_time_of_a_task(broker: Broker, work) -> None:
    broker.declare_queue("orders")
    broker.clock.hold()
    work("orders", lambda channel, body: "keep")
    eta = datetime.fromtimestamp(broker.clock.now, UTC) + timedelta(minutes=15)
    broker.publish("", "orders", b"[[7], {}]", headers={"task": "shop.ship", "retries": 1, "eta": eta.isoformat()})

    with pytest.raises(WaitTimeoutError, match=r"as its task is due in 15 min 0 s; the worker counts this time itself"):
        broker.wait_idle(timeout=0.05)


def test_an_assertion_waits_for_other_threads(broker: Broker, work) -> None:
    broker.declare_queue("orders")
    broker.declare_queue("invoices")

    def bill(channel, body: bytes) -> str:
        channel.basic_publish("", "invoices", body)
        return "ack"

    work("orders", bill)
    broker.publish("", "orders", b"7")

    assert broker.assert_published("", routing_key="invoices", timeout=5).body == b"7"
    broker.assert_acked("orders", body=b"7", timeout=5)
    broker.assert_published("", routing_key="invoices", body=b"7", timeout=5)


def test_a_worker_that_still_has_to_declare_its_queue_is_waited_for(broker: Broker) -> None:
    def consume() -> None:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("orders", durable=True)
            channel.basic_consume("orders", lambda *_: channel.stop_consuming(), auto_ack=True, consumer_tag="taker")
            channel.start_consuming()

    worker = threading.Thread(target=consume)
    worker.start()

    assert broker.wait_for_consumer("orders").tag == "taker"
    assert broker.publish("", "orders", b"x")
    worker.join(5)


def test_wait_for_consumer_shows_the_state_when_it_times_out(broker: Broker) -> None:
    broker.declare_queue("orders")

    with pytest.raises(WaitTimeoutError, match=r"(?s)'orders' has no consumers after 0\.01 s.*queues: empty: orders"):
        broker.wait_for_consumer("orders", timeout=0.01)


@pytest.mark.asyncio
async def test_a_coroutine_waits_for_a_worker_on_its_own_event_loop(broker: Broker) -> None:
    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        await message.ack()

    async with await aio_pika.connect(broker.url) as connection:
        queue = await (await connection.channel()).declare_queue("orders", durable=True)
        consuming = asyncio.ensure_future(queue.consume(take))

        assert (await broker.aio.wait_for_consumer("orders")).queue == "orders"
        await consuming


def test_an_assertion_that_times_out_shows_the_state(broker: Broker) -> None:
    broker.declare_queue("orders")

    with pytest.raises(AssertionError, match=r"(?s)acked.*queues: empty: orders"):
        broker.assert_acked("orders", timeout=0.01)


def test_a_blocking_wait_on_an_event_loop_names_its_awaitable_version(broker: Broker) -> None:
    broker.declare_queue("orders")

    async def block() -> None:
        with pytest.raises(BrokerError, match=r"await broker\.aio\.wait_idle\(\.\.\.\)"):
            broker.wait_idle()
        with pytest.raises(BrokerError, match=r"await broker\.aio\.clock\.advance\(\.\.\.\)"):
            broker.clock.advance(1)
        with pytest.raises(BrokerError, match=r"await broker\.aio\.assert_acked\(\.\.\.\)"):
            broker.assert_acked("orders", timeout=1)

    asyncio.run(block())


def test_methods_that_do_not_wait_work_on_an_event_loop(broker: Broker) -> None:
    async def act() -> None:
        broker.declare_queue("orders")
        broker.publish("", "orders", b"x")
        broker.sync()
        broker.assert_published("", routing_key="orders")
        assert len(broker.queue("orders").ready) == 1

    asyncio.run(act())


def test_awaitables_wait_beside_the_client_on_one_event_loop(broker: Broker) -> None:
    aio_pika = pytest.importorskip("aio_pika")

    async def consume() -> None:
        connection = await aio_pika.connect(broker.url)
        channel = await connection.channel()
        queue = await channel.declare_queue("orders", durable=True)

        async def handle(message) -> None:
            await message.ack()

        await queue.consume(handle)
        broker.publish("", "orders", b"x")
        acked = await broker.aio.assert_acked("orders", timeout=5)
        assert acked.body == b"x"
        await broker.aio.wait_idle()
        assert (await broker.aio.assert_acked("orders", timeout=5)).body == b"x"
        await broker.aio.clock.advance(1)
        await connection.close()

    asyncio.run(consume())


def test_an_awaitable_fails_as_its_blocking_version_does(broker: Broker) -> None:
    broker.declare_queue("orders")

    async def wait() -> None:
        with pytest.raises(AssertionError, match="acked"):
            await broker.aio.assert_acked("orders", timeout=0.01)

    asyncio.run(wait())
    with pytest.raises(AttributeError, match=r"broker\.aio has no attribute 'publish'"):
        _ = broker.aio.publish


def test_a_cancelled_awaitable_does_not_block_the_event_loop(broker: Broker, work) -> None:
    broker.declare_queue("orders")
    work("orders", lambda channel, body: "keep")
    broker.publish("", "orders")

    async def give_up() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(broker.aio.wait_idle(timeout=60), 0.02)

    asyncio.run(give_up())
    broker.sync()


def test_awaitables_wait_under_trio(broker: Broker) -> None:
    trio = pytest.importorskip("trio")
    broker.declare_queue("orders")

    async def wait() -> None:
        with pytest.raises(BrokerError, match=r"await broker\.aio\.wait_idle"):
            broker.wait_idle()
        await broker.aio.wait_idle()
        broker.publish("", "orders", b"x")
        assert (await broker.aio.assert_published("", timeout=5)).body == b"x"

    trio.run(wait)


def _wait_interrupted(broker: Broker) -> None:
    is_over = threading.Event()

    def interrupt() -> None:
        while not broker._engine.loop.turns._sleepers:
            if is_over.wait(0.001):
                return
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        broker.wait_idle(timeout=20)
    finally:
        is_over.set()
        interrupting.join()


@pytest.mark.skipif(os.name != "posix", reason="interrupts the main thread with a signal")
def test_an_interrupted_wait_leaves_the_broker_usable(broker: Broker, work) -> None:
    broker.declare_queue("orders")
    work("orders", lambda channel, body: "keep")
    broker.publish("", "orders")
    broker.assert_delivered("orders", timeout=5)
    # A run in the background may have inherited an ignored SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    with pytest.raises(KeyboardInterrupt):
        _wait_interrupted(broker)
    signal.signal(signal.SIGINT, before)

    broker.publish("", "orders")
    assert len(broker.queue("orders").unacked) == 2
