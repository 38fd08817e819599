"""What pika and aio-pika do when the connection is lost at each step of a confirmed publish and of a consume with ack.

The tests record how the clients behave, not how they should. docs/how-to/exploring.md has the results as a table, with
the versions.
"""

from __future__ import annotations

import asyncio
import contextlib

import aio_pika
import pika
import pytest
from aio_pika.exceptions import ChannelInvalidStateError

import leveret

PATIENCE = 30
LOST = ["lost before", "lost after"]
ANY_LOSS = [*LOST, "restart before"]


def outcomes(client, **words):
    """Return the result that a client reports under each schedule; the plain run comes first."""
    told = []

    def scenario(broker):
        broker.declare_queue("work")
        told.append(_told_by(client, broker))
        # The plain run comes twice.
        if len(told) > 2:
            raise AssertionError(told[-1])

    with pytest.raises(leveret.ExplorationFailedError) as failure:
        leveret.explore(scenario, keep_going=True, **words)
    found = failure.value.exploration
    assert found.diverged == []
    return {"plain": told[0]} | {
        str(run.schedule).replace(" conn 1 chan 1", "").replace(" #1", ""): str(run.error or run.hang)
        for run in found.failed_runs
    }


def _told_by(client, broker):
    try:
        return client(broker)
    except (ConnectionError, aio_pika.exceptions.AMQPError) as error:
        return f"raised {type(error).__name__}"


def in_queue(broker):
    return f"{len(broker.queue('work').ready)} in the queue"


def pika_publishes(broker):
    told = []
    try:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", "work", b"1", pika.BasicProperties(delivery_mode=2))
            told.append("returned")
    except pika.exceptions.AMQPConnectionError as error:
        told.append(f"raised {type(error).__name__}")
    return ", ".join([*told, in_queue(broker)])


def pika_consumes(broker):
    broker.publish("", "work", b"1", delivery_mode=2)
    told = []

    def on_message(channel, method, properties, body):
        channel.basic_ack(method.delivery_tag)
        told.append("handled")
        channel.stop_consuming()

    try:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.basic_consume("work", on_message)
            channel.start_consuming()
    except pika.exceptions.AMQPConnectionError as error:
        told.append(f"raised {type(error).__name__}")
    return ", ".join([*told, in_queue(broker)])


def test_pika_raises_for_any_loss_without_saying_whether_the_message_was_accepted():
    assert outcomes(pika_publishes, faults=LOST, on="basic.*") == {
        "plain": "returned, 1 in the queue",
        "lost before client->server basic.publish": "raised StreamLostError, 0 in the queue",
        "lost after client->server basic.publish": "raised StreamLostError, 1 in the queue",
        # The call had returned; the end of the with block raised.
        "lost after server->client basic.ack": "returned, raised StreamLostError, 1 in the queue",
    }


def test_pika_names_the_reason_of_a_restart():
    assert outcomes(pika_publishes, faults="restart before", on="basic.*") == {
        "plain": "returned, 1 in the queue",
        "restart before client->server basic.publish": "raised ConnectionClosedByBroker, 0 in the queue",
        "restart before server->client basic.ack": "raised ConnectionClosedByBroker, 1 in the queue",
    }


def test_pika_does_not_come_back_to_consume():
    assert outcomes(pika_consumes, faults=LOST, on=["basic.consume*", "basic.deliver", "basic.ack"]) == {
        "plain": "handled, 0 in the queue",
        "lost before client->server basic.consume": "raised StreamLostError, 1 in the queue",
        "lost after client->server basic.consume": "raised StreamLostError, 1 in the queue",
        "lost after server->client basic.consume-ok": "raised StreamLostError, 1 in the queue",
        "lost before server->client basic.deliver": "raised StreamLostError, 1 in the queue",
        # To the handler, an ack that never arrived looks the same as one that did.
        "lost after server->client basic.deliver": "handled, raised StreamLostError, 1 in the queue",
        "lost before client->server basic.ack": "handled, raised StreamLostError, 1 in the queue",
        "lost after client->server basic.ack": "handled, raised StreamLostError, 0 in the queue",
    }


@pytest.mark.parametrize("client", [pika_publishes, pika_consumes])
def test_pika_connects_once_and_raises_connection_errors_at_every_step_of_it(client):
    told = outcomes(client, faults=ANY_LOSS, on=["connection.[sto]*", "channel.open", "confirm.select"])

    del told["plain"]
    assert len(told) > 10
    assert {schedule: outcome for schedule, outcome in told.items() if not outcome.startswith("raised ")} == {}


def robust(broker):
    """Open a robust connection that is closed in any case; one that stays open may keep asyncio.run from ending."""
    return aio_pika.connect_robust(broker.url, reconnect_interval=0.01, timeout=PATIENCE)


def aio_pika_publishes(broker):
    message = aio_pika.Message(b"1", delivery_mode=2)

    async def publish():
        told = []
        async with await robust(broker) as connection:
            channel = await connection.channel()
            try:
                await channel.default_exchange.publish(message, "work")
                told.append("returned")
            except aio_pika.exceptions.AMQPConnectionError as error:
                told.append(f"raised {type(error).__name__}")
            told.append(in_queue(broker))
            # Once the connection is restored, publishing works again on the same channel. Before aio-pika notices the
            # loss, the channel says that it is ready and refuses to publish. A task of its own gives aio-pika the time
            # to notice; since CPython 3.12, wait_for alone does not.
            for _ in range(100):
                await asyncio.wait_for(asyncio.create_task(channel.ready()), PATIENCE)
                with contextlib.suppress(aio_pika.exceptions.AMQPConnectionError, ChannelInvalidStateError):
                    await channel.default_exchange.publish(message, "work")
                    break
        return ", ".join([*told, f"then {in_queue(broker)}"])

    return asyncio.run(publish())


def aio_pika_consumes(broker):
    broker.publish("", "work", b"1", delivery_mode=2)

    async def consume():
        told = []

        async def on_message(message):
            told.append("redelivered" if message.redelivered else "delivered")
            await message.ack()

        async with await robust(broker) as connection:
            channel = await connection.channel()
            queue = await channel.get_queue("work")
            await queue.consume(on_message)
            await broker.aio.assert_acked("work", timeout=PATIENCE)
        return ", ".join([*told, in_queue(broker)])

    return asyncio.run(consume())


PUBLISH = ["conn 1 chan 1 client->server basic.publish #1", "conn 1 chan 1 server->client basic.ack #1"]
CONSUME = ["basic.consume*", "basic.deliver", "basic.ack"]


def test_aio_pika_raises_for_unconfirmed_publishes_and_publishes_again_on_the_same_channel():
    assert outcomes(aio_pika_publishes, faults=ANY_LOSS, on=PUBLISH) == {
        "plain": "returned, 1 in the queue, then 2 in the queue",
        "lost before client->server basic.publish": "raised AMQPConnectionError, 0 in the queue, then 1 in the queue",
        "lost after client->server basic.publish": "raised AMQPConnectionError, 1 in the queue, then 2 in the queue",
        "restart before client->server basic.publish": "raised ConnectionClosed, 0 in the queue, then 1 in the queue",
        "lost after server->client basic.ack": "returned, 1 in the queue, then 2 in the queue",
        "restart before server->client basic.ack": "raised ConnectionClosed, 1 in the queue, then 2 in the queue",
    }


def test_aio_pika_resumes_consuming_only_after_consume_ok():
    told = outcomes(aio_pika_consumes, faults=ANY_LOSS, on=CONSUME)
    raised = [schedule for schedule, outcome in told.items() if outcome.startswith("raised")]

    assert raised == [
        "lost before client->server basic.consume",
        "lost after client->server basic.consume",
        "restart before client->server basic.consume",
        "restart before server->client basic.consume-ok",
    ]
    assert {schedule: outcome for schedule, outcome in told.items() if schedule not in raised} == {
        "plain": "delivered, 0 in the queue",
        "lost after server->client basic.consume-ok": "redelivered, 0 in the queue",
        "lost before server->client basic.deliver": "redelivered, 0 in the queue",
        "restart before server->client basic.deliver": "redelivered, 0 in the queue",
        # An ack that never arrived raises nothing; the handler sees its message again.
        "lost after server->client basic.deliver": "delivered, redelivered, 0 in the queue",
        "lost before client->server basic.ack": "delivered, redelivered, 0 in the queue",
        "restart before client->server basic.ack": "delivered, redelivered, 0 in the queue",
        "lost after client->server basic.ack": "delivered, 0 in the queue",
    }


@pytest.mark.parametrize("client", [aio_pika_publishes, aio_pika_consumes])
def test_aio_pika_raises_at_every_step_of_its_first_connection_and_of_opening_a_channel(client):
    told = outcomes(
        client, faults=ANY_LOSS, on=["*->server connection.*-ok *", "channel.open", "confirm.select", "basic.qos"]
    )

    del told["plain"]
    assert len(told) > 10
    assert {schedule: outcome for schedule, outcome in told.items() if not outcome.startswith("raised ")} == {}
