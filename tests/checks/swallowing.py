"""The table of what clients do with an error that none of their calls waits for, as data.

Each row is a program: it publishes without confirms to an exchange that does not exist, and goes on. Its outcome is
what the client did with the 404 that closed its channel, and what the check `unseen_channel_error` must do about it:

- "raised": the client raised an exception to the program, so there is nothing to report. It has the error's text, or
  says that the channel is closed, if the client had read the error before the call: which of the two is a race;
- "called back": it called a function of the program, so there is nothing to report;
- "swallowed": the program went on as if nothing had happened, so the check reports the error;
- "went on": the program opened another channel once the client had read the error, or dramatiq caught the client's
  exception. The error is swallowed, but a program that handles it looks the same, so the check is silent.

dramatiq, nameko and taskiq publish through these clients, so their rows show what they add. FastStream, taskiq and
nameko use confirms unless the program says otherwise, as do the channels of aio-pika: they wait for the error. These
frameworks are imported where they run, because each process that collects the tests imports this module.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import aio_pika
import aiormq
import amqp
import amqpstorm
import kombu
import kombu.pools
import pika
import rabbitpy
from celery import Celery
from pika.adapters.asyncio_connection import AsyncioConnection

Outcome = Literal["raised", "called back", "swallowed", "went on"]
Program = Callable[["Stage"], object]

# No program waits so long: each goes on once its client has read the error.
PATIENCE_S: Final = 30


class Row(NamedTuple):
    """A row of the table."""

    client: str
    # What the program does after the publish.
    does: str
    outcome: Outcome
    act: Program


class Stage:
    """What a program runs on: a broker and an exchange that does not exist."""

    def __init__(self, broker: Any, exchange: str) -> None:
        self.broker = broker
        self.exchange = exchange
        # Whether the client has called a function of the program.
        self.is_called_back = False

    def wait_until_read(self) -> None:
        """Wait until the client has read the error."""
        reactions = self.broker._engine.node.reactions
        assert self.broker._engine.wait_until(lambda: any(one._is_read for one in reactions.values()), PATIENCE_S)

    def call_back(self, *_arguments: object) -> None:
        """Be called by the client."""
        self.is_called_back = True


ROWS: Final[list[Row]] = []


def row(client: str, does: str, outcome: Outcome) -> Callable[[Program], Program]:
    """Add a program to the table."""

    def add(act: Program) -> Program:
        ROWS.append(Row(client, does, outcome, act))
        return act

    return add


# pika's BlockingConnection.


def with_pika(does: str, outcome: Outcome) -> Callable[[Callable[..., object]], object]:
    def add(act: Callable[..., object]) -> None:
        def program(stage: Stage) -> None:
            connection = pika.BlockingConnection(pika.URLParameters(stage.broker.url))
            channel = connection.channel()
            publish = lambda: channel.basic_publish(stage.exchange, "k", b"x")  # noqa: E731
            try:
                publish()
                act(stage, connection, channel, publish)
            finally:
                if connection.is_open:
                    connection.close()

        ROWS.append(Row("pika", does, outcome, program))

    return add


@row("pika", "with BlockingConnection(...)", "swallowed")
def _(stage: Stage) -> None:
    with pika.BlockingConnection(pika.URLParameters(stage.broker.url)) as connection:
        connection.channel().basic_publish(stage.exchange, "k", b"x")


@row("pika", "with connection.channel()", "raised")
def _(stage: Stage) -> None:
    with (
        pika.BlockingConnection(pika.URLParameters(stage.broker.url)) as connection,
        connection.channel() as channel,
    ):
        channel.basic_publish(stage.exchange, "k", b"x")


def read_with_pika(wait: Callable[[float], object], channel: Any) -> None:
    """Let pika read until it has read the error."""
    while channel.is_open:
        wait(0.05)


with_pika("connection.close()", "swallowed")(lambda stage, connection, channel, publish: connection.close())
with_pika("channel.close()", "raised")(lambda stage, connection, channel, publish: channel.close())
with_pika("process_data_events()", "swallowed")(
    lambda stage, connection, channel, publish: read_with_pika(connection.process_data_events, channel)
)
with_pika("sleep()", "swallowed")(lambda stage, connection, channel, publish: read_with_pika(connection.sleep, channel))
with_pika("connection.channel()", "swallowed")(lambda stage, connection, channel, publish: connection.channel())
with_pika("queue_declare", "raised")(
    lambda stage, connection, channel, publish: channel.queue_declare("another", durable=True)
)
with_pika("basic_get", "raised")(lambda stage, connection, channel, publish: channel.basic_get("work"))
with_pika("confirm_delivery", "raised")(lambda stage, connection, channel, publish: channel.confirm_delivery())
with_pika("basic_qos", "raised")(lambda stage, connection, channel, publish: channel.basic_qos(prefetch_count=1))
with_pika("tx_select", "raised")(lambda stage, connection, channel, publish: channel.tx_select())
with_pika("basic_consume", "raised")(
    lambda stage, connection, channel, publish: channel.basic_consume("work", lambda *_: None)
)
with_pika("consume", "raised")(
    lambda stage, connection, channel, publish: next(channel.consume("work", inactivity_timeout=PATIENCE_S))
)


@with_pika("basic_publish again and again", "raised")
def _(stage: Stage, connection: Any, channel: Any, publish: Callable[[], object]) -> None:
    for _ in range(100_000):
        publish()


@with_pika("process_data_events(), connection.channel()", "went on")
def _(stage: Stage, connection: Any, channel: Any, publish: Callable[[], object]) -> None:
    read_with_pika(connection.process_data_events, channel)
    connection.channel()


@with_pika("process_data_events(), basic_publish", "raised")
def _(stage: Stage, connection: Any, channel: Any, publish: Callable[[], object]) -> None:
    read_with_pika(connection.process_data_events, channel)
    publish()


@row("pika", "start_consuming", "raised")
def _(stage: Stage) -> None:
    with pika.BlockingConnection(pika.URLParameters(stage.broker.url)) as connection:
        channel = connection.channel()
        channel.basic_consume("work", lambda *_: None)
        channel.basic_publish(stage.exchange, "k", b"x")
        channel.start_consuming()


@row("pika", "a callback of another channel publishes", "swallowed")
def _(stage: Stage) -> None:
    with pika.BlockingConnection(pika.URLParameters(stage.broker.url)) as connection:
        channel, consumer = connection.channel(), connection.channel()

        def handle(*_: object) -> None:
            channel.basic_publish(stage.exchange, "k", b"x")
            consumer.stop_consuming()

        consumer.basic_consume("work", handle, auto_ack=True)
        stage.broker.publish("", "work", b"1")
        consumer.start_consuming()


@row("pika", "process_data_events() after a direct reply-to without a consumer", "swallowed")
def _(stage: Stage) -> None:
    with pika.BlockingConnection(pika.URLParameters(stage.broker.url)) as connection:
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
        channel = connection.channel()
        channel.basic_publish("", "work", b"x", properties)
        read_with_pika(connection.process_data_events, channel)


# pika's adapters with callbacks.


@row("pika SelectConnection", "close, without a callback", "swallowed")
def _(stage: Stage) -> None:
    def opened(channel: Any) -> None:
        channel.basic_publish(stage.exchange, "k", b"x")
        connection.ioloop.call_later(0.2, connection.close)

    connection = pika.SelectConnection(
        pika.URLParameters(stage.broker.url),
        on_open_callback=lambda connection: connection.channel(on_open_callback=opened),
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.start()


@row("pika SelectConnection", "add_on_close_callback", "called back")
def _(stage: Stage) -> None:
    def opened(channel: Any) -> None:
        channel.add_on_close_callback(closed)
        channel.basic_publish(stage.exchange, "k", b"x")

    def closed(*_: object) -> None:
        stage.call_back()
        connection.close()

    connection = pika.SelectConnection(
        pika.URLParameters(stage.broker.url),
        on_open_callback=lambda connection: connection.channel(on_open_callback=opened),
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.start()


@row("pika AsyncioConnection", "add_on_close_callback", "called back")
def _(stage: Stage) -> None:
    async def act() -> None:
        ended = asyncio.get_running_loop().create_future()

        def opened(channel: Any) -> None:
            channel.add_on_close_callback(closed)
            channel.basic_publish(stage.exchange, "k", b"x")

        def closed(*_: object) -> None:
            stage.call_back()
            connection.close()

        connection = AsyncioConnection(
            pika.URLParameters(stage.broker.url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=opened),
            on_close_callback=lambda *_: ended.set_result(None),
        )
        await ended

    asyncio.run(act())


# py-amqp, and kombu on it, which Celery and nameko use.


def with_amqp(does: str, outcome: Outcome) -> Callable[[Callable[..., object]], object]:
    def add(act: Callable[..., object]) -> None:
        def program(stage: Stage) -> None:
            connection = amqp.Connection(f"127.0.0.1:{stage.broker.port}")
            connection.connect()
            channel = connection.channel()
            publish = lambda: channel.basic_publish(amqp.Message("x"), stage.exchange, "k")  # noqa: E731
            try:
                publish()
                act(stage, connection, channel, publish)
            finally:
                connection.close()

        ROWS.append(Row("py-amqp", does, outcome, program))

    return add


@row("py-amqp", "with Connection(...)", "swallowed")
def _(stage: Stage) -> None:
    with amqp.Connection(f"127.0.0.1:{stage.broker.port}") as connection:
        connection.channel().basic_publish(amqp.Message("x"), stage.exchange, "k")


with_amqp("connection.close()", "swallowed")(lambda stage, connection, channel, publish: connection.close())
with_amqp("channel.close()", "swallowed")(lambda stage, connection, channel, publish: channel.close())
with_amqp("drain_events", "raised")(
    lambda stage, connection, channel, publish: connection.drain_events(timeout=PATIENCE_S)
)
with_amqp("queue_declare", "raised")(
    lambda stage, connection, channel, publish: channel.queue_declare("another", durable=True)
)
with_amqp("connection.channel()", "raised")(lambda stage, connection, channel, publish: connection.channel())


@with_amqp("basic_publish again and again", "raised")
def _(stage: Stage, connection: Any, channel: Any, publish: Callable[[], object]) -> None:
    for _ in range(100_000):
        publish()


def publish_with_kombu(stage: Stage, channel: Any) -> None:
    kombu.Producer(channel).publish("x", exchange=stage.exchange, routing_key="k", retry=True)


@row("kombu", "with Connection(...)", "swallowed")
def _(stage: Stage) -> None:
    with kombu.Connection(stage.broker.url) as connection:
        publish_with_kombu(stage, connection)


@row("kombu", "release()", "swallowed")
def _(stage: Stage) -> None:
    connection = kombu.Connection(stage.broker.url)
    publish_with_kombu(stage, connection)
    connection.release()


@row("kombu", "drain_events", "raised")
def _(stage: Stage) -> None:
    with kombu.Connection(stage.broker.url) as connection:
        publish_with_kombu(stage, connection)
        connection.drain_events(timeout=PATIENCE_S)


@row("Celery", "send_task", "swallowed")
def _(stage: Stage) -> None:
    with Celery(broker=stage.broker.url, set_as_current=False) as app:
        app.send_task("bill", exchange=stage.exchange, routing_key="k")


@row("Celery", "send_task with confirm_publish", "raised")
def _(stage: Stage) -> None:
    with Celery(broker=stage.broker.url, set_as_current=False) as app:
        app.conf.broker_transport_options = {"confirm_publish": True}
        app.send_task("bill", exchange=stage.exchange, routing_key="k")


# amqpstorm, which reads in a thread of its own.


def wait_for_amqpstorm(stage: Stage, channel: Any) -> None:
    """Wait until it has read the error. If its thread answered that while the program closes, it would close twice."""
    stage.wait_until_read()
    # The thread that reads answers close-ok before it keeps the error.
    deadline = time.monotonic() + PATIENCE_S
    while not channel.exceptions and time.monotonic() < deadline:
        time.sleep(0.001)


def with_amqpstorm(does: str, outcome: Outcome) -> Callable[[Callable[..., object]], object]:
    def add(act: Callable[..., object]) -> None:
        def program(stage: Stage) -> None:
            url = urlsplit(stage.broker.url)
            connection = amqpstorm.Connection("127.0.0.1", "guest", "guest", port=url.port)
            channel = connection.channel()
            publish = lambda: channel.basic.publish("x", "k", stage.exchange)  # noqa: E731
            try:
                publish()
                wait_for_amqpstorm(stage, channel)
                act(stage, connection, channel, publish)
            finally:
                connection.close()

        ROWS.append(Row("amqpstorm", does, outcome, program))

    return add


@row("amqpstorm", "with Connection(...)", "swallowed")
def _(stage: Stage) -> None:
    with (
        amqpstorm.Connection("127.0.0.1", "guest", "guest", port=stage.broker.port) as connection,
        connection.channel() as channel,
    ):
        channel.basic.publish("x", "k", stage.exchange)
        wait_for_amqpstorm(stage, channel)


with_amqpstorm("connection.close()", "swallowed")(lambda stage, connection, channel, publish: connection.close())
with_amqpstorm("channel.close()", "swallowed")(lambda stage, connection, channel, publish: channel.close())
with_amqpstorm("check_for_errors", "raised")(lambda stage, connection, channel, publish: channel.check_for_errors())
with_amqpstorm("queue.declare", "raised")(
    lambda stage, connection, channel, publish: channel.queue.declare("another", durable=True)
)
with_amqpstorm("basic.publish", "raised")(lambda stage, connection, channel, publish: publish())
with_amqpstorm("connection.channel()", "went on")(lambda stage, connection, channel, publish: connection.channel())


# rabbitpy, whose calls all raise what its thread has read.


def with_rabbitpy(does: str) -> Callable[[Callable[..., object]], object]:
    def add(act: Callable[..., object]) -> None:
        def program(stage: Stage) -> None:
            connection = rabbitpy.Connection(stage.broker.url)
            channel = connection.channel()
            rabbitpy.Message(channel, "x").publish(stage.exchange, "k")
            act(stage, connection, channel)

        ROWS.append(Row("rabbitpy", does, "raised", program))

    return add


@row("rabbitpy", "with Connection(...)", "raised")
def _(stage: Stage) -> None:
    with rabbitpy.Connection(stage.broker.url) as connection, connection.channel() as channel:
        rabbitpy.Message(channel, "x").publish(stage.exchange, "k")


@row("rabbitpy", "rabbitpy.publish", "raised")
def _(stage: Stage) -> None:
    rabbitpy.publish(stage.broker.url, exchange_name=stage.exchange, routing_key="k", body="x")


with_rabbitpy("connection.close()")(lambda stage, connection, channel: connection.close())
with_rabbitpy("channel.close()")(lambda stage, connection, channel: channel.close())
with_rabbitpy("Queue.declare")(lambda stage, connection, channel: rabbitpy.Queue(channel, "work").declare(passive=True))


# aiormq, and aio-pika on it.


def with_aiormq(does: str, outcome: Outcome) -> Callable[[Callable[..., Awaitable[object]]], object]:
    def add(act: Callable[..., Awaitable[object]]) -> None:
        async def run(stage: Stage) -> None:
            connection = await aiormq.connect(stage.broker.url)
            try:
                channel = await connection.channel(publisher_confirms=False)
                await channel.basic_publish(b"x", exchange=stage.exchange, routing_key="k")
                await act(stage, connection, channel)
            finally:
                await connection.close()

        ROWS.append(Row("aiormq", does, outcome, lambda stage: asyncio.run(run(stage))))

    return add


with_aiormq("connection.close()", "swallowed")(lambda stage, connection, channel: connection.close())
with_aiormq("channel.close()", "swallowed")(lambda stage, connection, channel: channel.close())
with_aiormq("queue_declare", "raised")(
    lambda stage, connection, channel: channel.queue_declare("another", durable=True)
)


@with_aiormq("read, connection.close()", "swallowed")
async def _(stage: Stage, connection: Any, channel: Any) -> None:
    await asyncio.to_thread(stage.wait_until_read)


@with_aiormq("read, basic_publish", "raised")
async def _(stage: Stage, connection: Any, channel: Any) -> None:
    await asyncio.to_thread(stage.wait_until_read)
    await asyncio.wait([channel.closing])
    await channel.basic_publish(b"x", routing_key="work")


@with_aiormq("await channel.closing", "raised")
async def _(stage: Stage, connection: Any, channel: Any) -> None:
    await channel.closing


@with_aiormq("read, connection.channel()", "went on")
async def _(stage: Stage, connection: Any, channel: Any) -> None:
    await asyncio.to_thread(stage.wait_until_read)
    await connection.channel()


def with_aio_pika(client: str, does: str, outcome: Outcome) -> Callable[[Callable[..., Awaitable[object]]], object]:
    connect = aio_pika.connect_robust if client == "aio-pika robust" else aio_pika.connect

    def add(act: Callable[..., Awaitable[object]]) -> None:
        async def run(stage: Stage) -> None:
            async with await connect(stage.broker.url) as connection:
                channel = await connection.channel(publisher_confirms=False)
                if outcome == "called back":
                    channel.close_callbacks.add(stage.call_back)
                exchange = await channel.get_exchange(stage.exchange, ensure=False)
                await exchange.publish(aio_pika.Message(b"x"), "k")
                await act(stage, connection, channel)

        ROWS.append(Row(client, does, outcome, lambda stage: asyncio.run(run(stage))))

    return add


async def read(stage: Stage, connection: Any, channel: Any) -> None:
    await asyncio.to_thread(stage.wait_until_read)


async def read_and_publish(stage: Stage, connection: Any, channel: Any) -> None:
    await asyncio.to_thread(stage.wait_until_read)
    await channel.closed()
    await channel.default_exchange.publish(aio_pika.Message(b"x"), "work")


async def nothing(stage: Stage, connection: Any, channel: Any) -> None:
    pass


for client in ("aio-pika", "aio-pika robust"):
    with_aio_pika(client, "async with", "swallowed")(nothing)
    with_aio_pika(client, "channel.close()", "swallowed")(lambda stage, connection, channel: channel.close())
    with_aio_pika(client, "read, async with", "swallowed")(read)
    with_aio_pika(client, "declare_queue", "raised")(
        lambda stage, connection, channel: channel.declare_queue("another", durable=True)
    )
    with_aio_pika(client, "close_callbacks", "called back")(read)
with_aio_pika("aio-pika", "read, publish", "raised")(read_and_publish)


@row("FastStream", "publish", "raised")
def _(stage: Stage) -> None:
    from faststream.rabbit import RabbitBroker, RabbitExchange

    async def act() -> None:
        async with RabbitBroker(stage.broker.url) as broker:
            exchange = RabbitExchange(stage.exchange, declare=False)
            await broker.publish("x", exchange=exchange, routing_key="k")

    asyncio.run(act())


# dramatiq itself publishes to the default exchange only, and its queues exist. A program may use its channel.


def with_dramatiq(does: str, outcome: Outcome) -> Callable[[Callable[..., object]], object]:
    def add(act: Callable[..., object]) -> None:
        def program(stage: Stage) -> None:
            from dramatiq.brokers.rabbitmq import RabbitmqBroker

            broker = RabbitmqBroker(url=stage.broker.url)
            broker.declare_queue("bills")
            try:
                broker.channel.basic_publish(stage.exchange, "k", b"x")
                act(broker)
            finally:
                broker.close()

        ROWS.append(Row("dramatiq", does, outcome, program))

    return add


def enqueue(broker: Any) -> None:
    from dramatiq import Message

    broker.enqueue(Message("bills", "bill", (), {}, {}))


with_dramatiq("close()", "went on")(lambda broker: None)
with_dramatiq("get_queue_message_counts", "raised")(lambda broker: broker.get_queue_message_counts("bills"))
# It catches the error and enqueues once more, on another connection.
with_dramatiq("enqueue", "went on")(enqueue)


@row("taskiq", "kiq, to an exchange deleted since the start", "raised")
def _(stage: Stage) -> None:
    from taskiq_aio_pika import AioPikaBroker

    async def act() -> None:
        broker = AioPikaBroker(stage.broker.url)
        await broker.startup()
        stage.broker.delete_exchange("taskiq")
        try:
            await broker.register_task(lambda: None, "bill").kiq()
        finally:
            await broker.shutdown()

    asyncio.run(act())


def with_nameko(does: str, outcome: Outcome, *, use_confirms: bool) -> None:
    def program(stage: Stage) -> None:
        from nameko.amqp.publish import Publisher

        publisher = Publisher(stage.broker.url, use_confirms=use_confirms)
        try:
            publisher.publish("x", exchange=stage.exchange, routing_key="k")
        finally:
            # The pool of kombu holds the connection.
            kombu.pools.reset()

    ROWS.append(Row("nameko", does, outcome, program))


with_nameko("publish without confirms", "swallowed", use_confirms=False)
with_nameko("publish", "raised", use_confirms=True)
