"""Publishing and consuming with aio-pika.

aio-pika writes a float as `f` (single precision) and a bytearray as `x`. It has no `basic.recover`.
"""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import aio_pika
import pytest
import pytest_asyncio
from aio_pika.exceptions import DeliveryError, PublishError

pytestmark = pytest.mark.asyncio

HEADERS = {
    "text": "grün",
    "octets": bytearray(b"\x00\xff"),
    "yes": True,
    "tiny": -5,
    "short": 300,
    "small": 70_000,
    "large": 2**40,
    "fraction": 1.5,
    "price": Decimal("3.14"),
    "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "nothing": None,
    "list": [1, "two", None, [3.0], {"four": 4}],
    "table": {"inner": {"deep": True}},
}


@pytest_asyncio.fixture
async def queue(channel):
    return await channel.declare_queue("work", durable=True)


@pytest.fixture
def publish(channel):
    """Return a function that publishes to the default exchange."""

    async def publish(body, routing_key="work", **options):
        return await channel.default_exchange.publish(aio_pika.Message(body, **options), routing_key)

    return publish


@pytest_asyncio.fixture
async def filled(queue, publish):
    """A queue that holds the messages 0 to 4."""
    for number in range(5):
        await publish(b"%d" % number)
    return queue


async def ready_count(connection, name):
    async with connection.channel() as channel:
        return (await channel.get_queue(name)).declaration_result.message_count


async def test_confirmed_publish(connection, queue, publish):
    confirmations = await asyncio.gather(*(publish(b"%d" % number) for number in range(50)))

    assert {type(confirmation).__name__ for confirmation in confirmations} == {"Ack"}
    assert await ready_count(connection, "work") == 50


async def test_mandatory_publish_without_route_is_returned(publish):
    with pytest.raises(PublishError) as returned:
        await publish(b"back", "nowhere")

    assert "NO_ROUTE" in str(returned.value)


async def test_returned_message_reaches_the_callback(connection, patience):
    channel = await connection.channel(on_return_raises=False)
    returned = asyncio.get_running_loop().create_future()
    channel.return_callbacks.add(lambda sender, message: returned.set_result(message))

    await channel.default_exchange.publish(aio_pika.Message(b"back"), "nowhere")

    message = await asyncio.wait_for(returned, patience)
    assert (message.routing_key, message.body) == ("nowhere", b"back")


async def test_full_queue_nacks_the_publish(channel, publish):
    await channel.declare_queue("full", durable=True, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})

    with pytest.raises(DeliveryError):
        await publish(b"", "full")


async def test_tx_commit_and_rollback(connection, queue):
    channel = await connection.channel(publisher_confirms=False)

    async with channel.transaction():
        await channel.default_exchange.publish(aio_pika.Message(b"kept"), "work")
        assert await ready_count(connection, "work") == 0
    assert await ready_count(connection, "work") == 1

    async def fail_in_a_transaction():
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"taken back"), "work")
            raise LookupError

    with pytest.raises(LookupError):
        await fail_in_a_transaction()
    assert await ready_count(connection, "work") == 1


async def test_body_of_five_megabytes(queue, publish):
    body = bytes(range(256)) * (5 * 4096)

    await publish(body)

    assert (await queue.get(no_ack=True)).body == body


async def test_headers_of_every_type_come_back(queue, publish):
    await publish(b"", headers=HEADERS)

    assert (await queue.get(no_ack=True)).headers == HEADERS


async def test_properties_come_back(queue, publish):
    sent = {
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "priority": 9,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": 60.0,
        "message_id": "m",
        "timestamp": datetime(2026, 1, 2, tzinfo=UTC),
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
    }

    await publish(b"{}", **sent)
    received = await queue.get(no_ack=True)

    assert {name: getattr(received, name) for name in sent} == sent


async def test_consume_and_ack(connection, filled):
    seen = []

    async with filled.iterator() as messages:
        async for message in messages:
            async with message.process():
                seen.append(message.body)
            if len(seen) == 5:
                break

    assert seen == [b"0", b"1", b"2", b"3", b"4"]
    assert await ready_count(connection, "work") == 0


async def test_exception_while_processing_rejects(connection, queue, publish):
    await publish(b"poison")
    message = await queue.get()

    with pytest.raises(LookupError):
        async with message.process(requeue=True):
            raise LookupError

    again = await queue.get()
    assert (again.redelivered, again.body) == (True, b"poison")


async def test_requeue_and_reject(filled):
    first, second = await filled.get(), await filled.get()

    await first.nack(requeue=True)
    await second.reject(requeue=False)

    again = [await filled.get() for _ in range(2)]
    assert [(message.redelivered, message.body) for message in again] == [(True, b"0"), (False, b"2")]


async def test_multiple_ack(connection, filled):
    messages = [await filled.get() for _ in range(5)]

    await messages[3].ack(multiple=True)
    await messages[4].nack(requeue=True)

    assert (await filled.get()).body == b"4"


async def test_prefetch_is_enforced(connection, channel, filled, patience):
    await channel.set_qos(prefetch_count=2)
    delivered = asyncio.Queue()
    await filled.consume(delivered.put)

    held = [await asyncio.wait_for(delivered.get(), patience) for _ in range(2)]
    assert (await filled.declare()).message_count == 3
    assert delivered.empty()

    await held[0].ack()
    assert (await asyncio.wait_for(delivered.get(), patience)).body == b"2"


async def test_cancel_gives_no_more_deliveries(connection, channel, filled, patience):
    await channel.set_qos(prefetch_count=1)
    delivered = asyncio.Queue()
    tag = await filled.consume(delivered.put)
    message = await asyncio.wait_for(delivered.get(), patience)

    await filled.cancel(tag)
    await message.ack()

    assert (await filled.declare()).message_count == 4
    assert delivered.empty()


async def test_consumer_is_notified_when_its_queue_is_deleted(connection, queue, patience):
    told = asyncio.Queue()
    (await queue.channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(told.put)
    tag = await queue.consume(lambda message: None)

    async with connection.channel() as other:
        await other.queue_delete("work")

    assert (await asyncio.wait_for(told.get(), patience)).consumer_tag == tag
    await queue.declare()
    assert await queue.consume(lambda message: None, consumer_tag=tag) == tag


async def test_expired_message_is_dead_lettered(channel, publish, patience):
    dead = await channel.declare_queue("dead", durable=True)
    await dead.bind("amq.fanout")
    await channel.declare_queue("brief", durable=True, arguments={"x-dead-letter-exchange": "amq.fanout"})
    delivered = asyncio.Queue()
    await dead.consume(delivered.put)

    await publish(b"old", "brief", expiration=0.001)
    message = await asyncio.wait_for(delivered.get(), patience)

    assert (message.exchange, message.routing_key, message.body) == ("amq.fanout", "brief", b"old")
    (death,) = message.headers["x-death"]
    assert (death["reason"], death["queue"], death["original-expiration"]) == ("expired", "brief", "1")


async def test_rpc_over_direct_reply_to(connection, channel, patience):
    server, replies = await channel.declare_queue("rpc", durable=True), asyncio.Queue()
    reply_to = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
    await reply_to.consume(replies.put, no_ack=True)

    async def answer(request):
        message = aio_pika.Message(b"%d" % (int(request.body) + 1), correlation_id=request.correlation_id)
        async with request.process(), connection.channel() as other:
            await other.default_exchange.publish(message, request.reply_to)

    await server.consume(answer)
    question = aio_pika.Message(b"20", reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    await channel.default_exchange.publish(question, "rpc")

    reply = await asyncio.wait_for(replies.get(), patience)
    assert (reply.body, reply.correlation_id) == (b"21", "7")


async def test_rpc_pattern_of_the_library(connection, patience):
    from aio_pika.patterns import RPC

    async def add(*, a, b):
        return a + b

    rpc = await RPC.create(await connection.channel())
    await rpc.register("add", add, auto_delete=True)

    assert await asyncio.wait_for(rpc.proxy.add(a=20, b=1), patience) == 21
