"""Declaring, binding and deleting with aiormq, and the errors for what the broker refuses."""

import aiormq
import pytest
from aiormq.exceptions import (
    ChannelClosed,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionNotImplemented,
    ProbableAuthenticationError,
)

pytestmark = pytest.mark.asyncio


async def test_declare_bind_and_get(channel):
    await channel.exchange_declare("orders", exchange_type="topic", durable=True)
    await channel.queue_declare("orders.work", durable=True)
    await channel.queue_bind("orders.work", "orders", "order.*")

    await channel.basic_publish(b"7", exchange="orders", routing_key="order.created")
    await channel.basic_publish(b"8", exchange="orders", routing_key="invoice.created")
    message = await channel.basic_get("orders.work", no_ack=True)

    assert (message.exchange, message.routing_key, message.message_count) == ("orders", "order.created", 0)
    assert message.body == b"7"
    assert (await channel.basic_get("orders.work")).delivery.name == "Basic.GetEmpty"


async def test_server_named_queue(channel):
    declared = await channel.queue_declare(exclusive=True)

    assert declared.queue.startswith("amq.gen-")
    assert (declared.message_count, declared.consumer_count) == (0, 0)


async def test_exclusive_queue_is_locked_and_ends_with_its_connection(connect):
    owner, other = await connect(), await connect()
    await (await owner.channel()).queue_declare("mine", exclusive=True)

    async def refusal():
        with pytest.raises(ChannelClosed) as refusal:
            await (await other.channel()).queue_declare("mine", passive=True)
        return refusal.type

    assert await refusal() is ChannelLockedResource
    await owner.close()
    # RabbitMQ under load may still show the queue for a moment.
    while (error := await refusal()) is ChannelLockedResource:
        continue
    assert error is ChannelNotFoundEntity


async def test_redeclare_with_other_arguments_is_refused(channel):
    await channel.exchange_declare("orders", exchange_type="topic", durable=True)

    with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'type' for exchange 'orders'"):
        await channel.exchange_declare("orders", exchange_type="fanout", durable=True)


async def test_exchange_to_exchange_binding(channel):
    await channel.exchange_declare("all", exchange_type="fanout", durable=True)
    await channel.exchange_declare("errors", exchange_type="topic", durable=True)
    await channel.exchange_bind(destination="errors", source="all")
    await channel.queue_declare("errors.work", durable=True)
    await channel.queue_bind("errors.work", "errors", "#.error")

    await channel.basic_publish(b"e", exchange="all", routing_key="app.error")
    await channel.basic_publish(b"i", exchange="all", routing_key="app.info")
    await channel.exchange_unbind(destination="errors", source="all")
    await channel.basic_publish(b"later", exchange="all", routing_key="app.error")

    message = await channel.basic_get("errors.work", no_ack=True)
    assert (message.exchange, message.message_count, message.body) == ("all", 0, b"e")


async def test_purge_and_delete(channel):
    await channel.queue_declare("work", durable=True)
    for _ in range(3):
        await channel.basic_publish(b"", routing_key="work")

    assert (await channel.queue_purge("work")).message_count == 3
    await channel.basic_publish(b"", routing_key="work")
    assert (await channel.queue_delete("work")).message_count == 1
    assert (await channel.queue_delete("work")).message_count == 0


async def test_error_on_one_channel_leaves_the_other_working(connection):
    broken, working = await connection.channel(), await connection.channel()
    await working.queue_declare("work", durable=True)

    with pytest.raises(ChannelNotFoundEntity, match="NOT_FOUND - no queue 'missing' in vhost"):
        await broken.queue_declare("missing", passive=True)
    await working.basic_publish(b"still here", routing_key="work")

    assert (await working.basic_get("work")).body == b"still here"


async def test_publish_to_a_missing_exchange_closes_the_channel(channel):
    with pytest.raises(ChannelNotFoundEntity, match="NOT_FOUND - no exchange 'missing' in vhost"):
        await channel.basic_publish(b"", exchange="missing", routing_key="key")


async def test_connection_error_closes_the_connection(connection, channel):
    with pytest.raises(ConnectionNotImplemented, match="NOT_IMPLEMENTED - prefetch_size!=0"):
        await channel.basic_qos(prefetch_size=1)

    assert connection.is_closed


async def test_reopened_connection_finds_what_it_left(connect):
    first = await connect()
    channel = await first.channel()
    await channel.queue_declare("work", durable=True)
    properties = aiormq.spec.Basic.Properties(delivery_mode=2)
    await channel.basic_publish(b"kept", routing_key="work", properties=properties)
    await channel.basic_get("work")
    await first.close()

    message = await (await (await connect()).channel()).basic_get("work")

    assert (message.body, message.redelivered) == (b"kept", True)
    assert message.header.properties.delivery_mode == 2


async def test_server_says_what_it_can(connection):
    assert connection.server_properties["product"] == "RabbitMQ"
    assert connection.publisher_confirms
    assert connection.basic_nack
    assert connection.consumer_cancel_notify
    assert connection.exchange_exchange_bindings


async def test_wrong_password_is_refused(connect, broker_url):
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED"):
        await connect(broker_url.replace("guest:guest", "guest:wrong"))
