"""Waiting for consumers that have lost their connection: `wait_idle` expects them back if a message is left."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import warnings
from collections.abc import Iterator

import aio_pika
import amqp
import pytest

from leveret import Broker, LeveretWarning, WaitTimeoutError


def kill(broker: Broker, connection: amqp.Connection) -> None:
    """Close the socket without a word, as the end of the client's process does, and let the broker notice."""
    connection.transport.close()
    broker.sync()


LOSSES = {
    "restart": lambda broker, connection: broker.restart(),
    "reset": lambda broker, connection: broker.faults.reset_peer(),
    "closed by an operator": lambda broker, connection: broker.admin.close_all_connections("maintenance"),
    "killed": kill,
}
LEAVINGS = {
    "cancel": lambda channel: channel.basic_cancel("taker"),
    "channel": lambda channel: channel.close(),
    "connection": lambda channel: channel.connection.close(),
}
# Nothing is left to take from this queue.
ENDS = {
    "purged": lambda broker: broker.purge_queue("orders"),
    "deleted": lambda broker: broker.delete_queue("orders"),
    "expired": lambda broker: broker.clock.advance(minutes=10, settle=0),
}


@pytest.fixture
def taker(broker: Broker) -> Iterator[amqp.Channel]:
    """A channel of a client that consumes from the durable queue "orders"."""
    broker.declare_queue("orders", arguments={"x-message-ttl": 600_000})
    connection = connected(broker)
    yield taking(connection)
    with contextlib.suppress(amqp.AMQPError, OSError):
        connection.close()


def connected(broker: Broker) -> amqp.Connection:
    connection = amqp.Connection(f"127.0.0.1:{broker.port}", client_properties={"connection_name": "shop"})
    connection.connect()
    return connection


def taking(connection: amqp.Connection) -> amqp.Channel:
    channel = connection.channel()
    channel.basic_consume("orders", consumer_tag="taker")
    return channel


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_wait_idle_names_the_queue_whose_consumer_lost_its_connection(broker: Broker, taker, loss) -> None:
    loss(broker, taker.connection)
    broker.publish("", "orders", b"1", delivery_mode=2)

    with pytest.raises(WaitTimeoutError, match=r"1 ready on orders, whose last consumer .* shop \(c1\)") as failure:
        broker.wait_idle(timeout=0)

    assert "reconnects=False" in str(failure.value)
    broker.wait_idle(timeout=0, reconnects=False)


@pytest.mark.parametrize("leave", LEAVINGS.values(), ids=LEAVINGS)
def test_wait_idle_does_not_wait_for_a_consumer_that_left_on_purpose(broker: Broker, taker, leave) -> None:
    leave(taker)
    broker.publish("", "orders", b"1")

    broker.wait_idle(timeout=0)


def test_wait_idle_does_not_wait_for_a_consumer_that_came_back_and_left(broker: Broker, taker) -> None:
    kill(broker, taker.connection)
    with contextlib.closing(connected(broker)) as connection:
        taking(connection).basic_cancel("taker")
    broker.publish("", "orders", b"1")

    broker.wait_idle(timeout=0)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_wait_idle_does_not_wait_for_a_consumer_without_a_message(broker: Broker, taker, end) -> None:
    kill(broker, taker.connection)
    broker.publish("", "orders", b"1")
    end(broker)

    broker.wait_idle(timeout=0)


def test_time_moves_on_without_a_consumer_that_lost_its_connection(broker: Broker, taker) -> None:
    kill(broker, taker.connection)
    broker.publish("", "orders", b"1")

    with warnings.catch_warnings():
        warnings.simplefilter("error", LeveretWarning)
        broker.clock.advance(minutes=5)
    with broker.clock.autojump():
        broker.assert_ready("orders", times=0, timeout=30)


def test_wait_idle_waits_until_a_lost_consumer_has_taken_its_message_again(broker: Broker) -> None:
    handled = []

    async def scenario() -> None:
        broker.declare_queue("orders")
        connection = await aio_pika.connect_robust(broker.url, reconnect_interval=0.05)
        queue = await (await connection.channel()).declare_queue("orders", durable=True)
        delivered = asyncio.Event()

        async def handle(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            handled.append(message.redelivered)
            delivered.set()
            if message.redelivered:
                await message.ack()

        await queue.consume(handle)
        broker.publish("", "orders", b"1", delivery_mode=2)
        await delivered.wait()

        broker.restart()
        await broker.aio.wait_idle(timeout=30)
        await connection.close()

    asyncio.run(scenario())

    assert handled == [False, True]


BREAKS = {"restart": lambda broker: broker.restart(), "reset": lambda broker: broker.faults.reset_peer()}
# How a listener of its own declares the queue that goes with its connection.
OWN_QUEUES = {
    "named by the server": {"exclusive": True},
    "named by the client": {"name": "listener", "exclusive": True},
    "auto-delete": {"name": "listener", "auto_delete": True},
}


class Listener:
    """A client that listens to a fan-out exchange with a queue of its own."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.connection: aio_pika.abc.AbstractConnection

    async def listen(self, broker: Broker, *, connect=aio_pika.connect_robust, interval: float = 0.05, **queue) -> None:
        options = {"reconnect_interval": interval} if connect is aio_pika.connect_robust else {}
        self.connection = await connect(broker.url, **options)
        channel = await self.connection.channel()
        news = await channel.declare_exchange("news", "fanout", durable=True)
        own = await channel.declare_queue(**{"exclusive": True, **queue})
        await own.bind(news)
        await own.consume(self.hear, no_ack=True)

    async def hear(self, message: aio_pika.abc.AbstractIncomingMessage) -> None:
        self.heard.append(message.body)


@pytest.mark.parametrize("queue", OWN_QUEUES.values(), ids=OWN_QUEUES)
@pytest.mark.parametrize("loss", BREAKS.values(), ids=BREAKS)
def test_wait_idle_waits_for_a_listener_whose_own_queue_went_with_its_connection(broker: Broker, loss, queue) -> None:
    listener = Listener()

    async def scenario() -> None:
        await listener.listen(broker, **queue)
        loss(broker)
        await broker.aio.wait_idle(timeout=30)
        broker.publish("news", "", b"1")
        await broker.aio.wait_idle(timeout=30)
        await listener.connection.close()

    asyncio.run(scenario())

    assert listener.heard == [b"1"]


def test_wait_idle_names_a_listener_that_reconnects_but_is_not_back(broker: Broker) -> None:
    listener = Listener()

    async def scenario() -> None:
        await listener.listen(broker, interval=60)
        broker.restart()
        with pytest.raises(
            WaitTimeoutError, match=r"aiormq \(c1\) consumed from a queue that went with its .*\(reconnects=False"
        ):
            await broker.aio.wait_idle(timeout=0.1)
        await broker.aio.wait_idle(timeout=0, reconnects=False)
        await listener.connection.close()
        # Now it does not come back.
        await broker.aio.wait_idle(timeout=0)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "options", [{"connect": aio_pika.connect}, {"robust": False}], ids=["does not reconnect", "does not declare again"]
)
def test_wait_idle_does_not_wait_for_a_listener_that_may_not_come_back(broker: Broker, options) -> None:
    listener = Listener()

    async def scenario() -> None:
        await listener.listen(broker, interval=60, **options)
        broker.restart()
        await broker.aio.wait_idle(timeout=0)
        await listener.connection.close()

    asyncio.run(scenario())


def listening(connection: amqp.Connection) -> None:
    channel = connection.channel()
    name = channel.queue_declare(exclusive=True).queue
    channel.basic_consume(name)


def test_a_test_waits_for_a_listener_by_the_name_of_its_client(broker: Broker) -> None:
    lost = connected(broker)
    listening(lost)
    kill(broker, lost)
    broker.wait_idle(timeout=0)

    with pytest.raises(
        WaitTimeoutError, match=r"client 'shop' has no consumers .* lost its connection c1, and has not"
    ):
        broker.wait_for_consumer(client="shop", timeout=0)

    with contextlib.closing(connected(broker)) as connection:
        thread = threading.Thread(target=listening, args=(connection,))
        thread.start()
        consumer = broker.wait_for_consumer(client="shop", timeout=30)
        thread.join()

        assert (consumer.connection, consumer.queue[:8]) == ("shop", "amq.gen-")
        with pytest.raises(WaitTimeoutError, match="client 'shop' has no consumers of 'orders' after 0 s"):
            broker.wait_for_consumer("orders", client="shop", timeout=0)


def test_a_wait_for_a_consumer_needs_a_queue_or_a_client(broker: Broker) -> None:
    with pytest.raises(TypeError, match="needs queue or client"):
        broker.wait_for_consumer()
