"""Declaring, binding and deleting with aio-pika, and the errors for what the broker refuses."""

from urllib.parse import urlsplit

import aio_pika
import pytest
from aio_pika.exceptions import (
    ChannelClosed,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    InvalidFrameError,
    ProbableAuthenticationError,
    QueueEmpty,
)
from aiormq.exceptions import ChannelLockedResource

pytestmark = pytest.mark.asyncio


async def test_declare_bind_and_get(channel):
    orders = await channel.declare_exchange("orders", aio_pika.ExchangeType.TOPIC, durable=True)
    queue = await channel.declare_queue("orders.work", durable=True)
    await queue.bind(orders, "order.*")

    await orders.publish(aio_pika.Message(b"7"), "order.created")
    await orders.publish(aio_pika.Message(b"8"), "invoice.created", mandatory=False)
    message = await queue.get(no_ack=True)

    assert (message.exchange, message.routing_key, message.message_count) == ("orders", "order.created", 0)
    assert message.body == b"7"
    with pytest.raises(QueueEmpty):
        await queue.get()


async def test_unbound_queue_gets_nothing(channel):
    queue = await channel.declare_queue("work", durable=True)
    await queue.bind("amq.direct", "key")
    await queue.unbind("amq.direct", "key")

    direct = await channel.get_exchange("amq.direct")
    await direct.publish(aio_pika.Message(b""), "key", mandatory=False)

    assert await queue.get(fail=False) is None


async def test_default_declaration_is_transient_and_shared(channel):
    queue = await channel.declare_queue("plain")

    assert (queue.durable, queue.exclusive, queue.declaration_result.message_count) == (False, False, 0)


async def test_server_named_queue(channel):
    queue = await channel.declare_queue(exclusive=True)

    assert queue.name.startswith("amq.gen-")


async def test_exclusive_queue_is_locked_and_ends_with_its_connection(connect):
    owner, other = await connect(), await connect()
    await (await owner.channel()).declare_queue("mine", exclusive=True)

    async def refusal():
        with pytest.raises(ChannelClosed) as refusal:
            await (await other.channel()).get_queue("mine")
        return refusal.type

    assert await refusal() is ChannelLockedResource
    await owner.close()
    # RabbitMQ under load may still show the queue for a moment.
    while (error := await refusal()) is ChannelLockedResource:
        continue
    assert error is ChannelNotFoundEntity


async def test_redeclare_with_other_arguments_is_refused(connection, channel):
    await channel.declare_queue("work", durable=True)

    with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'x-expires' for queue 'work'"):
        await (await connection.channel()).declare_queue("work", durable=True, arguments={"x-expires": 1000})


async def test_exchange_to_exchange_binding(channel):
    everything = await channel.declare_exchange("all", aio_pika.ExchangeType.FANOUT, durable=True)
    errors = await channel.declare_exchange("errors", aio_pika.ExchangeType.TOPIC, durable=True)
    queue = await channel.declare_queue("errors.work", durable=True)
    await errors.bind(everything)
    await queue.bind(errors, "#.error")

    await everything.publish(aio_pika.Message(b"e"), "app.error")
    await everything.publish(aio_pika.Message(b"i"), "app.info", mandatory=False)

    message = await queue.get(no_ack=True)
    assert (message.exchange, message.message_count, message.body) == ("all", 0, b"e")


async def test_headers_exchange_matches_all_or_any(channel):
    exchange = await channel.declare_exchange("by-header", aio_pika.ExchangeType.HEADERS, durable=True)
    both = await channel.declare_queue("both", durable=True)
    either = await channel.declare_queue("either", durable=True)
    await both.bind(exchange, "", arguments={"x-match": "all", "kind": "pdf", "pages": 3})
    await either.bind(exchange, "", arguments={"x-match": "any", "kind": "pdf", "pages": 3})

    await exchange.publish(aio_pika.Message(b"1", headers={"kind": "pdf", "pages": 4}), "")
    await exchange.publish(aio_pika.Message(b"2", headers={"kind": "pdf", "pages": 3}), "")

    assert [(await either.get(no_ack=True)).body for _ in range(2)] == [b"1", b"2"]
    assert (await both.get(no_ack=True)).body == b"2"
    assert await both.get(fail=False) is None


async def test_purge_and_delete(channel):
    queue = await channel.declare_queue("work", durable=True)
    for number in range(3):
        await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), "work")

    assert (await queue.purge()).message_count == 3
    await channel.default_exchange.publish(aio_pika.Message(b""), "work")
    assert (await queue.delete(if_empty=False)).message_count == 1
    assert (await channel.queue_delete("work")).message_count == 0


async def test_error_on_one_channel_leaves_the_other_working(connection):
    broken, working = await connection.channel(), await connection.channel()
    queue = await working.declare_queue("work", durable=True)

    with pytest.raises(ChannelNotFoundEntity, match="NOT_FOUND - no queue 'missing' in vhost"):
        await broken.get_queue("missing")
    await working.default_exchange.publish(aio_pika.Message(b"still here"), "work")

    assert (await queue.get()).body == b"still here"


async def test_publish_to_a_missing_exchange_closes_the_channel(channel):
    exchange = await channel.get_exchange("missing", ensure=False)

    with pytest.raises(ChannelClosed, match="NOT_FOUND - no exchange 'missing' in vhost"):
        await exchange.publish(aio_pika.Message(b""), "key")


async def test_reopened_connection_finds_what_it_left(connect):
    first = await connect()
    channel = await first.channel()
    queue = await channel.declare_queue("work", durable=True)
    sent = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    await channel.default_exchange.publish(sent, "work")
    await queue.get()
    await first.close()

    queue = await (await (await connect()).channel()).get_queue("work")
    message = await queue.get()

    assert (message.body, message.redelivered) == (b"kept", True)
    assert message.delivery_mode is aio_pika.DeliveryMode.PERSISTENT


async def test_wrong_password_is_refused(broker_url):
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED"):
        await aio_pika.connect(broker_url.replace("guest:guest", "guest:wrong"))


async def test_unknown_virtual_host_is_refused(connect, broker_url):
    # aiormq names the frame that it received instead of connection.open-ok.
    with pytest.raises(InvalidFrameError, match=r"Connection\.Close"):
        await connect(urlsplit(broker_url)._replace(path="/nowhere").geturl())
