"""What `connect_robust` restores after a lost connection: exchanges, queues, bindings, prefetch and consumers.

The connection goes through a relay. Cutting it there needs no help from the broker.
"""

import asyncio
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aio_pika
import pytest
import pytest_asyncio

pytestmark = pytest.mark.asyncio


class Relay:
    """A relay that passes bytes between its clients and the broker until `cut`."""

    def __init__(self, url):
        self.target = urlsplit(url)
        self.writers = []

    @asynccontextmanager
    async def running(self):
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = self.target._replace(netloc=f"guest:guest@127.0.0.1:{port}").geturl()
        try:
            yield self
        finally:
            server.close()
            self.cut()

    async def accept(self, from_client, to_client):
        from_broker, to_broker = await asyncio.open_connection(self.target.hostname, self.target.port)
        self.writers += [to_client, to_broker]
        await asyncio.gather(self.pass_on(from_client, to_broker), self.pass_on(from_broker, to_client))

    async def pass_on(self, reader, writer):
        try:
            while octets := await reader.read(65536):
                writer.write(octets)
        except ConnectionError:
            pass
        finally:
            writer.close()

    def cut(self):
        while self.writers:
            self.writers.pop().transport.abort()


@pytest_asyncio.fixture
async def relay(broker_url):
    async with Relay(broker_url).running() as relay:
        yield relay


@pytest_asyncio.fixture
async def robust(relay, patience):
    connection = await aio_pika.connect_robust(relay.url, reconnect_interval=0.01, timeout=patience)
    yield connection
    await connection.close()


@pytest.fixture
def lose_connection(relay, robust, patience):
    """Return a function that cuts the connection and waits until the library has restored everything."""

    async def lose_connection():
        restored = asyncio.Event()
        robust.reconnect_callbacks.add(lambda *_: restored.set())
        relay.cut()
        await asyncio.wait_for(restored.wait(), patience)

    return lose_connection


async def test_consumer_goes_on_after_the_connection_was_lost(robust, lose_connection, patience):
    channel = await robust.channel()
    orders = await channel.declare_exchange("orders", aio_pika.ExchangeType.TOPIC, durable=True)
    queue = await channel.declare_queue("work", durable=True)
    await queue.bind(orders, "order.*")
    delivered = asyncio.Queue()
    await queue.consume(delivered.put)

    await orders.publish(aio_pika.Message(b"before"), "order.created")
    await (await asyncio.wait_for(delivered.get(), patience)).ack()
    await queue.declare()
    await lose_connection()
    await orders.publish(aio_pika.Message(b"after"), "order.created")

    message = await asyncio.wait_for(delivered.get(), patience)
    assert (message.body, message.redelivered) == (b"after", False)


async def test_unacked_message_is_delivered_again_after_the_connection_was_lost(robust, lose_connection, patience):
    channel = await robust.channel()
    queue = await channel.declare_queue("work", durable=True)
    delivered = asyncio.Queue()
    await queue.consume(delivered.put)
    await channel.default_exchange.publish(aio_pika.Message(b"held"), "work")
    await asyncio.wait_for(delivered.get(), patience)

    await lose_connection()

    again = await asyncio.wait_for(delivered.get(), patience)
    assert (again.body, again.redelivered) == (b"held", True)


async def test_exclusive_queue_is_declared_anew_after_the_connection_was_lost(robust, lose_connection, patience):
    channel = await robust.channel()
    queue = await channel.declare_queue("mine", exclusive=True)
    await queue.bind("amq.fanout")
    delivered = asyncio.Queue()
    await queue.consume(delivered.put)

    await lose_connection()
    fanout = await channel.get_exchange("amq.fanout")
    await fanout.publish(aio_pika.Message(b"after"), "")

    assert (await asyncio.wait_for(delivered.get(), patience)).body == b"after"


async def test_prefetch_holds_after_the_connection_was_lost(robust, lose_connection, patience):
    channel = await robust.channel()
    await channel.set_qos(prefetch_count=1)
    queue = await channel.declare_queue("work", durable=True)
    delivered = asyncio.Queue()
    await queue.consume(delivered.put)

    await lose_connection()
    for body in [b"1", b"2"]:
        await channel.default_exchange.publish(aio_pika.Message(body), "work")

    assert (await asyncio.wait_for(delivered.get(), patience)).body == b"1"
    assert (await queue.declare()).message_count == 1
    assert delivered.empty()
