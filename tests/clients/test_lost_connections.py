"""What the client libraries see, and how they recover, when the broker restarts or closes their connection.

A test can only restart a broker that it owns, so these tests run on leveret alone. RabbitMQ sends the same reply: 320,
CONNECTION_FORCED.
"""

import asyncio
import threading
from urllib.parse import urlsplit

import aio_pika
import aiormq
import amqp
import kombu
import pika
import pytest
from kombu.mixins import ConsumerMixin
from pika.exceptions import ConnectionClosedByBroker

FORCED = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"


@pytest.fixture
def broker(make_broker):
    with make_broker() as broker:
        broker.declare_queue("work")
        yield broker


def test_pika_reconnects_and_finds_durable_objects(broker, patience):
    parameters = pika.URLParameters(broker.url)
    channel = pika.BlockingConnection(parameters).channel()
    channel.confirm_delivery()
    channel.basic_publish("", "work", b"kept", pika.BasicProperties(delivery_mode=2))
    channel.basic_publish("", "work", b"lost", pika.BasicProperties(delivery_mode=1))
    channel.queue_declare("mine", exclusive=True)
    channel.basic_get("work")

    broker.restart()
    with pytest.raises(ConnectionClosedByBroker) as closure:
        channel.connection.process_data_events(time_limit=patience)

    assert (closure.value.reply_code, closure.value.reply_text) == (320, FORCED)
    with pika.BlockingConnection(parameters) as connection:
        method, _, body = connection.channel().basic_get("work", auto_ack=True)
        assert (body, method.redelivered, method.message_count) == (b"kept", True, 0)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'mine'"):
            connection.channel().queue_declare("mine", passive=True)


def test_pika_consumer_loop_of_the_documentation_recovers(broker, patience):
    """This is the loop that pika's examples recommend: connect, consume, and begin again on a lost connection."""
    seen, ready = [], threading.Semaphore(0)

    def work(channel, method, properties, body):
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
        if body == b"stop":
            channel.stop_consuming()

    def consume_for_ever():
        while b"stop" not in seen:
            try:
                with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                    channel = connection.channel()
                    channel.basic_consume("work", work)
                    ready.release()
                    channel.start_consuming()
            except ConnectionClosedByBroker:
                continue

    worker = threading.Thread(target=consume_for_ever)
    worker.start()
    assert ready.acquire(timeout=patience)
    broker.publish("", "work", b"before")
    broker.wait_idle()
    broker.restart()
    assert ready.acquire(timeout=patience)
    broker.publish("", "work", b"stop")
    worker.join(patience)

    assert seen == [b"before", b"stop"]


def test_aio_pika_robust_connection_resumes(broker, patience):
    async def main():
        connection = await aio_pika.connect_robust(broker.url, reconnect_interval=0.01, timeout=patience)
        restored, delivered = asyncio.Event(), asyncio.Queue()
        connection.reconnect_callbacks.add(lambda *_: restored.set())
        channel = await connection.channel()
        queue = await channel.declare_queue("robust", auto_delete=True, durable=True)
        await queue.consume(delivered.put)

        broker.restart()
        await asyncio.wait_for(restored.wait(), patience)
        await channel.default_exchange.publish(aio_pika.Message(b"after"), "robust")

        message = await asyncio.wait_for(delivered.get(), patience)
        await connection.close()
        return message.body

    assert asyncio.run(main()) == b"after"


def test_aiormq_reports_why_the_connection_closed(broker, patience):
    async def main():
        connection = await aiormq.connect(broker.url)
        closed = asyncio.get_running_loop().create_future()
        connection.closing.add_done_callback(lambda closing: closed.set_result(closing.exception()))

        broker.restart()

        return await asyncio.wait_for(closed, patience)

    assert "CONNECTION_FORCED" in str(asyncio.run(main()))


def test_py_amqp_raises_one_of_its_connection_errors(broker, patience):
    address = urlsplit(broker.url)
    connection = amqp.Connection(f"{address.hostname}:{address.port}", connect_timeout=patience)
    connection.connect()

    broker.restart()

    # It answers connection.close before it raises the error, and the socket may already have been reset.
    with pytest.raises(connection.recoverable_connection_errors):
        connection.drain_events(timeout=patience)


def test_kombu_producer_retries_on_a_new_connection(broker):
    with kombu.Connection(broker.url) as connection:
        producer = connection.Producer()
        producer.publish("before", routing_key="work")
        broker.restart()

        producer.publish("after", routing_key="work", retry=True, retry_policy={"max_retries": 2, "interval_start": 0})

        queue = kombu.Queue("work")(connection.default_channel)
        assert [queue.get(no_ack=True).payload for _ in range(2)] == ["before", "after"]


def test_kombu_consumer_mixin_resumes(broker, patience):
    class Worker(ConsumerMixin):
        def __init__(self, connection):
            self.connection = connection
            self.seen = []
            self.ready = threading.Semaphore(0)

        def get_consumers(self, Consumer, channel):
            return [Consumer([kombu.Queue("work")], callbacks=[self.on_task])]

        def on_consume_ready(self, connection, channel, consumers, **options):
            self.ready.release()

        def on_task(self, body, message):
            self.seen.append(body)
            message.ack()
            self.should_stop = len(self.seen) == 2

    with kombu.Connection(broker.url) as connection:
        worker = Worker(connection)
        thread = threading.Thread(target=worker.run)
        thread.start()
        assert worker.ready.acquire(timeout=patience)
        connection.Producer().publish("before", routing_key="work")
        broker.wait_idle()
        broker.restart()
        assert worker.ready.acquire(timeout=patience)
        broker.publish("", "work", b"after", content_type="text/plain", content_encoding="utf-8")
        thread.join(patience)

    assert worker.seen == ["before", "after"]


def test_operator_closes_one_connection(broker, patience):
    with (
        pika.BlockingConnection(pika.URLParameters(broker.url)) as spared,
        pika.BlockingConnection(pika.URLParameters(broker.url)) as closed,
    ):
        channel = spared.channel()
        broker.admin.close_connection(broker.connections[1].number, "maintenance")

        with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - maintenance"):
            closed.process_data_events(time_limit=patience)
        assert channel.basic_get("work") == (None, None, None)
