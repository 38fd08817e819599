"""Publishing and consuming with aiormq.

aiormq writes a float as `f` (single precision) and a bytearray as `x`.
"""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import aiormq
import pytest
import pytest_asyncio
from aiormq.exceptions import ChannelPreconditionFailed, DeliveryError, PublishError

pytestmark = pytest.mark.asyncio

Properties = aiormq.spec.Basic.Properties

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
async def filled(channel):
    """The name of a queue that holds the messages 0 to 4."""
    await channel.queue_declare("work", durable=True)
    for number in range(5):
        await channel.basic_publish(b"%d" % number, routing_key="work")
    return "work"


async def test_confirmed_publish(channel, ready_count):
    await channel.queue_declare("work", durable=True)

    publishes = (channel.basic_publish(b"%d" % number, routing_key="work") for number in range(50))
    confirmations = await asyncio.gather(*publishes)

    assert {confirmation.name for confirmation in confirmations} == {"Basic.Ack"}
    assert await ready_count("work") == 50


async def test_mandatory_publish_without_route_is_returned(channel):
    with pytest.raises(PublishError) as returned:
        await channel.basic_publish(b"back", routing_key="nowhere", mandatory=True)

    assert returned.value.message.delivery.reply_text == "NO_ROUTE"
    assert returned.value.message.body == b"back"
    assert (await channel.basic_publish(b"dropped", routing_key="nowhere")).name == "Basic.Ack"


async def test_full_queue_nacks_the_publish(channel):
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    await channel.queue_declare("full", durable=True, arguments=arguments)

    with pytest.raises(DeliveryError):
        await channel.basic_publish(b"", routing_key="full")


async def test_tx_commit_and_rollback(connection, channel, filled, ready_count):
    transactional = await connection.channel(publisher_confirms=False)
    await transactional.tx_select()

    await transactional.basic_publish(b"taken back", routing_key="work")
    await transactional.tx_rollback()
    await transactional.basic_publish(b"5", routing_key="work")
    assert await ready_count("work") == 5
    await transactional.tx_commit()
    assert await ready_count("work") == 6


async def test_body_of_five_megabytes(channel):
    body = bytes(range(256)) * (5 * 4096)
    await channel.queue_declare("work", durable=True)

    await channel.basic_publish(body, routing_key="work")

    assert (await channel.basic_get("work", no_ack=True)).body == body


async def test_headers_of_every_type_come_back(channel):
    await channel.queue_declare("work", durable=True)

    await channel.basic_publish(b"", routing_key="work", properties=Properties(headers=HEADERS))
    message = await channel.basic_get("work", no_ack=True)

    assert message.header.properties.headers == HEADERS


async def test_consume_and_ack(channel, filled, ready_count, patience):
    delivered = asyncio.Queue()
    await channel.basic_consume(filled, delivered.put)

    messages = [await asyncio.wait_for(delivered.get(), patience) for _ in range(5)]
    await channel.basic_ack(messages[-1].delivery_tag, multiple=True)
    await channel.close()

    assert [message.body for message in messages] == [b"0", b"1", b"2", b"3", b"4"]
    assert await ready_count(filled) == 0


async def test_requeue_and_reject(channel, filled):
    first, second = await channel.basic_get(filled), await channel.basic_get(filled)

    await channel.basic_nack(first.delivery_tag, requeue=True)
    await channel.basic_reject(second.delivery_tag, requeue=False)

    again = [await channel.basic_get(filled) for _ in range(2)]
    assert [(message.redelivered, message.body) for message in again] == [(True, b"0"), (False, b"2")]


async def test_recover_requeues_what_is_unacked(channel, filled):
    await channel.basic_get(filled)

    await channel.basic_recover(requeue=True)

    message = await channel.basic_get(filled)
    assert (message.redelivered, message.body) == (True, b"0")


async def test_prefetch_is_enforced(channel, filled, ready_count, patience):
    delivered = asyncio.Queue()
    await channel.basic_qos(prefetch_count=2)
    await channel.basic_consume(filled, delivered.put)

    held = [await asyncio.wait_for(delivered.get(), patience) for _ in range(2)]
    assert await ready_count(filled) == 3
    assert delivered.empty()

    await channel.basic_ack(held[0].delivery_tag)
    assert (await asyncio.wait_for(delivered.get(), patience)).body == b"2"


async def test_cancel_gives_no_more_deliveries(channel, filled, ready_count, patience):
    delivered = asyncio.Queue()
    await channel.basic_qos(prefetch_count=1)
    tag = (await channel.basic_consume(filled, delivered.put)).consumer_tag
    message = await asyncio.wait_for(delivered.get(), patience)

    await channel.basic_cancel(tag)
    await channel.basic_ack(message.delivery_tag)

    assert await ready_count(filled) == 4
    assert delivered.empty()


async def test_unknown_delivery_tag_closes_the_channel(channel):
    await channel.basic_ack(5)

    with pytest.raises(ChannelPreconditionFailed, match="PRECONDITION_FAILED - unknown delivery tag 5"):
        await channel.queue_declare("work", durable=True)


async def test_consumer_is_notified_when_its_queue_is_deleted(connection, channel, filled, patience):
    told = asyncio.Queue()
    channel.on_consumer_cancel_callbacks.add(told.put)
    tag = (await channel.basic_consume(filled, lambda message: None, no_ack=True)).consumer_tag

    await (await connection.channel()).queue_delete(filled)

    assert (await asyncio.wait_for(told.get(), patience)).consumer_tag == tag


async def test_expired_message_is_dead_lettered(channel, patience):
    dead = asyncio.Queue()
    await channel.queue_declare("dead", durable=True)
    await channel.queue_bind("dead", "amq.fanout")
    arguments = {"x-dead-letter-exchange": "amq.fanout", "x-message-ttl": 1}
    await channel.queue_declare("brief", durable=True, arguments=arguments)
    await channel.basic_consume("dead", dead.put)

    await channel.basic_publish(b"old", routing_key="brief")
    message = await asyncio.wait_for(dead.get(), patience)

    assert (message.exchange, message.routing_key, message.body) == ("amq.fanout", "brief", b"old")
    (death,) = message.header.properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("expired", "brief", 1)


async def test_rpc_over_direct_reply_to(connection, channel, patience):
    requests, replies = asyncio.Queue(), asyncio.Queue()
    server = await connection.channel()
    await server.queue_declare("rpc", durable=True)
    await server.basic_consume("rpc", requests.put, no_ack=True)
    await channel.basic_consume("amq.rabbitmq.reply-to", replies.put, no_ack=True)

    question = Properties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    await channel.basic_publish(b"20", routing_key="rpc", properties=question)
    request = await asyncio.wait_for(requests.get(), patience)
    answer = Properties(correlation_id=request.header.properties.correlation_id)
    reply_to = request.header.properties.reply_to
    await server.basic_publish(b"%d" % (int(request.body) + 1), routing_key=reply_to, properties=answer)

    reply = await asyncio.wait_for(replies.get(), patience)
    assert (reply.header.properties.correlation_id, reply.body) == ("7", b"21")
