"""Mistakes that people make, each as the test that makes it, with what the output must say.

`cause` is a pattern of the line that names what went wrong, and `way_out` one of the line that says what to do. A
mistake whose way out leveret cannot know has none.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """A test with a mistake, and what pytest's output must say about it."""

    source: str
    cause: str
    way_out: str | None


MISTAKES: dict[str, Mistake] = {}


def mistake(name: str, source: str, cause: str, way_out: str | None) -> None:
    assert name not in MISTAKES
    MISTAKES[name] = Mistake(source, cause, way_out)


# Names.
mistake(
    "a misspelt queue in a view",
    """
    def test_it(leveret):
        leveret.declare_queue("orders")
        assert leveret.queue("ordesr").ready == ()
    """,
    cause="queue 'ordesr'.*does not exist|no queue 'ordesr'",
    way_out="did you mean 'orders'",
)
mistake(
    "a misspelt queue in an assertion",
    """
    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        leveret.assert_ready("oders", timeout=0.1)
    """,
    cause="queue 'oders'|'oders'",
    way_out="did you mean 'orders'",
)
mistake(
    "a misspelt exchange in the commonest idiom of pika",
    """
    import pika

    def test_it(leveret):
        leveret.declare_exchange("shop", "topic")
        with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
            connection.channel().basic_publish("shoop", "order.created", b"7")
    """,
    cause="no exchange 'shoop' in vhost '/'",
    way_out="did you mean 'shop'|confirm_delivery|leveret.allow",
)
mistake(
    "a misspelt routing key",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("mails")
        leveret.bind_queue("mails", "amq.topic", "order.#")
        with connect(leveret.url) as connection:
            connection.channel().basic_publish("amq.topic", "odrer.created", b"7")
    """,
    cause="unroutable: 1 message.*|'odrer.created' matches no binding",
    way_out="'order.#'",
)
mistake(
    "a publish to the default exchange for a queue that is not there",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        with connect(leveret.url) as connection:
            connection.channel().basic_publish("", "order", b"7")
    """,
    cause="unroutable: 1 message",
    way_out="'orders'",
)
mistake(
    "a worker that consumes from another queue",
    """
    import pika
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.declare_queue("order")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            channel.basic_consume("order", lambda *_: None)
            channel.basic_publish("", "orders", b"7")
            leveret.assert_acked("orders", timeout=0.1)
    """,
    cause="still ready.*in 'orders'",
    way_out="'orders' (has|had) no consumers?|no consumer",
)
mistake(
    "a dead-letter exchange that does not exist",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders", arguments={"x-dead-letter-exchange": "dlx"})
        leveret.publish("", "orders", b"7")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            method, _, _ = channel.basic_get("orders")
            channel.basic_reject(method.delivery_tag, requeue=False)
        leveret.assert_dead_lettered("orders")
    """,
    cause="dead-letter exchange 'dlx' does not exist",
    way_out=None,
)
mistake(
    "a dead-letter exchange without a queue behind it",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_exchange("dlx", "direct")
        leveret.declare_queue("orders", arguments={"x-dead-letter-exchange": "dlx"})
        leveret.publish("", "orders", b"7")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            method, _, _ = channel.basic_get("orders")
            channel.basic_reject(method.delivery_tag, requeue=False)
    """,
    cause="rejected_into_nothing: 1 message",
    way_out="'dlx'",
)
mistake(
    "a binding to a queue that is not declared",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("mails")
        with connect(leveret.url) as connection:
            connection.channel().queue_bind("mail", "amq.topic", "order.#")
    """,
    cause="no queue 'mail' in vhost '/'",
    way_out="did you mean 'mails'|'mails'",
)
mistake(
    "a misspelt type of an exchange",
    """
    from client import connect

    def test_it(leveret):
        with connect(leveret.url) as connection:
            connection.channel().exchange_declare("shop", "topc", durable=True)
    """,
    cause="unknown exchange type 'topc'",
    way_out="did you mean 'topic'|topic",
)
# Where and as whom.
mistake(
    "a virtual host that the broker does not have",
    """
    import pika

    def test_it(leveret):
        parameters = pika.URLParameters(leveret.url)
        parameters.virtual_host = "staging"
        pika.BlockingConnection(parameters)
    """,
    cause="vhost staging not found",
    way_out="leveret_vhosts|vhosts=|add_vhost",
)
mistake(
    "credentials that the broker does not know",
    """
    import pika

    def test_it(leveret):
        parameters = pika.URLParameters(leveret.url)
        parameters.credentials = pika.PlainCredentials("shop", "secret")
        pika.BlockingConnection(parameters)
    """,
    cause="user 'shop'.*invalid credentials|ACCESS_REFUSED",
    way_out="leveret_users|users=|add_user",
)
mistake(
    "a port where nothing listens",
    """
    import pika

    def test_it(leveret, unused_port):
        leveret.declare_queue("orders")
        parameters = pika.ConnectionParameters("127.0.0.1", unused_port)
        pika.BlockingConnection(parameters)
    """,
    cause="no client has connected|no client came",
    way_out="amqp://guest:guest@127.0.0.1:",
)
mistake(
    "a fixed URL where another broker listens",
    """
    import pika

    def test_it(leveret, other_port):
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", other_port)) as connection:
            connection.channel().queue_declare("orders", durable=True)
    """,
    cause="no_client: 1 broker to which no client came",
    way_out="this process tried to connect to 127.0.0.1:567., at .*: give that code the broker's url",
)
mistake(
    "TLS on the plain port",
    """
    import pika

    def test_it(leveret):
        pika.BlockingConnection(pika.URLParameters(leveret.url.replace("amqp:", "amqps:")))
    """,
    cause="TLS",
    way_out="tls=True|leveret.tls|amqps://|amqp://",
)
mistake(
    "a browser's address of the management port, on the port of AMQP",
    """
    import socket

    def test_it(leveret):
        with socket.create_connection(("127.0.0.1", leveret.port)) as client:
            client.sendall(b"GET /api/overview HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
            client.recv(100)
        leveret.wait_for_consumer("orders", timeout=0.1)
    """,
    cause="HTTP",
    way_out="management",
)
mistake(
    "a client of AMQP 1.0",
    """
    import socket

    def test_it(leveret):
        leveret.declare_queue("orders")
        with socket.create_connection(("127.0.0.1", leveret.port)) as client:
            client.sendall(b"AMQP\\x00\\x01\\x00\\x00")
            client.recv(100)
        leveret.assert_published(timeout=0.1)
    """,
    cause="AMQP 1.0",
    way_out="0-9-1",
)
mistake(
    "the broker in place of its URL",
    """
    import pika

    def test_it(leveret):
        pika.URLParameters(leveret)
    """,
    cause="not subscriptable|URLParameters|a broker is no URL",
    way_out=r"leveret\.url|\.url",
)
mistake(
    "the module in place of the fixture",
    """
    import leveret

    def test_it():
        leveret.publish("", "orders", b"7")
    """,
    cause="module 'leveret' has no attribute 'publish'",
    way_out=r"def test_it\(leveret\)",
)
mistake(
    "a fixture that does not exist",
    """
    def test_it(leveret_broker):
        leveret_broker.publish("", "orders", b"7")
    """,
    cause="fixture 'leveret_broker' not found",
    way_out="'?leveret'?",
)
mistake(
    "a fixture of the module that asks for the broker of a test",
    """
    import pytest

    @pytest.fixture(scope="module")
    def url(leveret):
        return leveret.url

    def test_it(url):
        pass
    """,
    cause="ScopeMismatch",
    way_out="leveret_session|leveret_fixture",
)
# Acknowledgements.
mistake(
    "a missing ack",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            channel.basic_get("orders")
            leveret.assert_acked("orders", timeout=0.1)
    """,
    cause="held by worker|delivered to worker.*not (yet )?acked|unacked",
    way_out="never (acked|settled)|not acked|still held|holds it",
)
mistake(
    "a missing ack, seen at the end only",
    """
    from client import connect

    connections = []

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        connections.append(connect(leveret.url))
        connections[0].channel().basic_get("orders")
    """,
    cause="unacked_at_end: 1 message",
    way_out="leveret.allow|ack",
)
mistake(
    "a second ack of one delivery",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            method, _, _ = channel.basic_get("orders")
            channel.basic_ack(method.delivery_tag)
            channel.basic_ack(method.delivery_tag)
    """,
    cause="unknown delivery tag 1",
    way_out="already (acked|settled)|settled before|acked twice|once",
)
mistake(
    "an ack on another channel",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        with connect(leveret.url) as connection:
            method, _, _ = connection.channel().basic_get("orders")
            connection.channel().basic_ack(method.delivery_tag)
    """,
    cause="unknown delivery tag 1",
    way_out="channel 1|c1/ch1|another channel|delivered (it )?on",
)
mistake(
    "automatic acks and a crash",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        connection = connect(leveret.url)
        channel = connection.channel()
        channel.basic_consume("orders", lambda *_: None, auto_ack=True)
        connection.process_data_events(5)
        leveret.faults.reset_peer()
    """,
    cause="auto_ack_lost: 1 message",
    way_out="leveret.allow|ack",
)
mistake(
    "a message that is requeued for ever",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            for _ in range(120):
                method, _, _ = channel.basic_get("orders")
                channel.basic_nack(method.delivery_tag, requeue=True)
    """,
    cause="redelivered_too_often: 1 message",
    way_out="delivery limit|delivery-limit",
)
mistake(
    "a reject in a queue without a dead-letter exchange",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            method, _, _ = channel.basic_get("orders")
            channel.basic_reject(method.delivery_tag, requeue=False)
    """,
    cause="rejected_into_nothing: 1 message",
    way_out="no dead-letter exchange",
)
mistake(
    "a prefetch of one whose message is never acked",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        for number in (1, 2):
            leveret.publish("", "orders", json={"id": number})
        with connect(leveret.url) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume("orders", lambda *_: None)
            connection.process_data_events(5)
            leveret.assert_delivered("orders", json={"id": 2}, timeout=0.1)
    """,
    cause="prefetch of 1",
    way_out="prefetch of 1",
)
# Coroutines and threads.
mistake(
    "a missing await of an assertion",
    """
    import asyncio

    def test_it(leveret):
        async def scenario():
            leveret.aio.assert_published("shop")

        asyncio.run(scenario())
    """,
    cause="never awaited|without await|was not awaited",
    way_out="await",
)
mistake(
    "a missing await of a publish",
    """
    import asyncio
    import aio_pika

    def test_it(leveret):
        async def scenario():
            async with await aio_pika.connect(leveret.url) as connection:
                channel = await connection.channel()
                channel.default_exchange.publish(aio_pika.Message(b"7"), "orders")
            await leveret.aio.assert_published("", timeout=0.1)

        asyncio.run(scenario())
    """,
    cause="No message was published",
    way_out="await",
)
mistake(
    "a wait that blocks the loop in which the worker runs",
    """
    import asyncio
    import aio_pika

    def test_it(leveret):
        leveret.declare_queue("orders")

        async def scenario():
            async with await aio_pika.connect(leveret.url) as connection:
                channel = await connection.channel()
                queue = await channel.get_queue("orders")

                async def handle(message):
                    await asyncio.sleep(0)
                    await message.ack()

                await queue.consume(handle)
                leveret.publish("", "orders", b"7")
                leveret.wait_idle(timeout=0.3)

        asyncio.run(scenario())
    """,
    cause="event loop|coroutine|asyncio",
    way_out=r"leveret\.aio|aio\.wait_idle|await",
)
mistake(
    "an assertion that blocks the loop in which the worker runs",
    """
    import asyncio
    import aio_pika

    def test_it(leveret):
        leveret.declare_queue("orders")

        async def scenario():
            async with await aio_pika.connect(leveret.url) as connection:
                channel = await connection.channel()
                queue = await channel.get_queue("orders")

                async def handle(message):
                    await message.ack()

                await queue.consume(handle)
                leveret.publish("", "orders", b"7")
                leveret.assert_acked("orders", timeout=0.3)

        asyncio.run(scenario())
    """,
    cause="event loop|coroutine|asyncio",
    way_out=r"leveret\.aio|aio\.assert_acked|await",
)
mistake(
    "an exception in the worker's thread",
    """
    import threading
    from client import connect

    def work(url):
        with connect(url) as connection:
            channel = connection.channel()
            channel.basic_consume("orders", lambda *_: 1 / 0)
            channel.start_consuming()

    def test_it(leveret):
        leveret.declare_queue("orders")
        threading.Thread(target=work, args=(leveret.url,), daemon=True).start()
        leveret.publish("", "orders", b"7")
        leveret.assert_acked("orders", timeout=0.5)
    """,
    cause="ZeroDivisionError",
    way_out="ZeroDivisionError.*division by zero|test_.*py",
)
mistake(
    "an assertion before the worker has acted",
    """
    import threading
    from client import connect

    release = threading.Event()

    def work(url):
        with connect(url) as connection:
            channel = connection.channel()
            for method, _, _ in channel.consume("orders"):
                release.wait(5)
                channel.basic_ack(method.delivery_tag)
                break

    def test_it(leveret):
        leveret.declare_queue("orders")
        worker = threading.Thread(target=work, args=(leveret.url,))
        worker.start()
        leveret.publish("", "orders", b"7")
        leveret.wait_for_consumer("orders")
        try:
            leveret.assert_acked("orders")
        finally:
            release.set()
            worker.join()
    """,
    cause="held by worker|delivered to worker|not (yet )?(acked|settled)|unacked",
    way_out="timeout=|wait_idle",
)
mistake(
    "one connection of pika in two threads",
    """
    import threading
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        connection = connect(leveret.url)
        channel = connection.channel()
        errors = []

        def publish():
            try:
                # It goes well by chance, mostly for some milliseconds.
                for _ in range(20_000):
                    channel.basic_publish("", "orders", b"7")
                    connection.process_data_events(0)
                    if errors:
                        return
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=publish) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        leveret.assert_ready("orders", times=40_001, timeout=0.1)
    """,
    cause="(two|2) threads",
    way_out="(two|2) threads|connection of its own",
)
mistake(
    "a wait for a worker that has left",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        with connect(leveret.url) as connection:
            connection.channel().basic_consume("orders", lambda *_: None)
        leveret.wait_for_consumer("orders", timeout=0.1)
    """,
    cause="no consumer|had no consumer",
    way_out="closed|went with|cancelled|left",
)
# More than one broker, more than one test.
mistake(
    "an assertion on the other of two brokers",
    """
    from client import connect

    def test_it(make_leveret):
        paris, rome = make_leveret(), make_leveret()
        paris.declare_queue("orders")
        rome.declare_queue("orders")
        with connect(paris.url) as connection:
            connection.channel().basic_publish("", "orders", b"7")
        rome.assert_published("", routing_key="orders")
    """,
    cause="on (the )?(other|first|another) broker|other broker|broker .*port",
    way_out="broker",
)
mistake(
    "a message of an earlier test in the broker of the session",
    """
    def test_first(leveret_session):
        leveret_session.declare_queue("orders")
        leveret_session.publish("", "orders", b"7")

    def test_it(leveret_session):
        leveret_session.publish("", "orders", b"8")
        assert len(leveret_session.queue("orders").ready) == 1
    """,
    cause="orders 2 ready",
    way_out=None,
)
mistake(
    "a queue of an earlier test in the broker of this one",
    """
    def test_first(leveret):
        leveret.declare_queue("orders")

    def test_it(leveret):
        assert leveret.queue("orders").ready == ()
    """,
    cause="queue 'orders' does not exist in vhost '/'",
    way_out=None,
)
# Arguments.
mistake(
    "a misspelt keyword",
    """
    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        leveret.assert_published("", routing_kye="orders")
    """,
    cause="routing_kye",
    way_out="did you mean (')?routing_key",
)
mistake(
    "a misspelt argument of a queue",
    """
    from client import connect

    def test_it(leveret):
        with connect(leveret.url) as connection:
            connection.channel().queue_declare("orders", durable=True, arguments={"x-message-tll": 1000})
    """,
    cause="unknown_argument",
    way_out="x-message-ttl",
)
mistake(
    "an argument of a queue of the wrong type",
    """
    from client import connect

    def test_it(leveret):
        with connect(leveret.url) as connection:
            connection.channel().queue_declare("orders", durable=True, arguments={"x-message-ttl": "1000"})
    """,
    cause="invalid arg 'x-message-ttl'",
    way_out=r"\.py:\d+|unacceptable_type|integer",
)
mistake(
    "a queue that is neither durable nor exclusive",
    """
    from client import connect

    def test_it(leveret):
        with connect(leveret.url) as connection:
            connection.channel().queue_declare("hello")
    """,
    cause="transient_nonexcl_queues",
    way_out="durable=True",
)
mistake(
    "a queue declared again with other arguments",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders", arguments={"x-max-priority": 5})
        with connect(leveret.url) as connection:
            connection.channel().queue_declare("orders", durable=True)
    """,
    cause="inequivalent arg 'x-max-priority'",
    way_out="declare it with the same|x-max-priority.*5|value '5'",
)
mistake(
    "the queue of another connection",
    """
    from client import connect

    def test_it(leveret):
        with connect(leveret.url) as one, connect(leveret.url) as other:
            one.channel().queue_declare("mine", exclusive=True)
            other.channel().basic_get("mine")
    """,
    cause="RESOURCE_LOCKED",
    way_out="exclusive",
)
mistake(
    "a misspelt setting in the marker",
    """
    import pytest

    @pytest.mark.leveret(rabitmq="3.13")
    def test_it(leveret):
        pass
    """,
    cause="rabitmq",
    way_out="did you mean (')?rabbitmq",
)
mistake(
    "a version as a number",
    """
    import pytest

    @pytest.mark.leveret(rabbitmq=3.13)
    def test_it(leveret):
        pass
    """,
    cause="rabbitmq=3.13 is a number",
    way_out="rabbitmq='3.13'",
)
mistake(
    "a version that leveret has no profile of",
    """
    import pytest

    @pytest.mark.leveret(rabbitmq="4.1")
    def test_it(leveret):
        pass
    """,
    cause="RabbitMQ version '4.1'",
    way_out="4\\.2|4\\.0",
)
mistake(
    "a level that does not exist",
    """
    import pytest

    @pytest.mark.leveret(checks="strict")
    def test_it(leveret):
        pass
    """,
    cause="strict",
    way_out="error",
)
mistake(
    "a call of pika on the broker",
    """
    def test_it(leveret):
        leveret.queue_declare("orders")
    """,
    cause="queue_declare",
    way_out="declare_queue",
)
mistake(
    "a call of freezegun on the clock",
    """
    def test_it(leveret):
        leveret.clock.tick(30)
    """,
    cause="tick",
    way_out="advance",
)
mistake(
    "an assertion of absence that does not exist",
    """
    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.assert_not_acked("orders")
    """,
    cause="assert_not_acked",
    way_out="times=0",
)
# Faults.
mistake(
    "a nack for publishes of a channel without confirms",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.faults.nack_publishes()
        with connect(leveret.url) as connection:
            connection.channel().basic_publish("", "orders", b"7")
    """,
    cause="unused_fault|never fired",
    way_out="confirm mode|confirm",
)
mistake(
    "a fault at a method that does not exist",
    """
    def test_it(leveret):
        leveret.faults.reset_peer(on="basic.acknowledge")
    """,
    cause="basic.acknowledge",
    way_out="basic.ack",
)
mistake(
    "a fault by toxiproxy's name",
    """
    def test_it(leveret):
        leveret.faults.disconnect()
    """,
    cause="disconnect",
    way_out="reset_peer|close_connection",
)
mistake(
    "an exploration of a call in place of a function",
    """
    import leveret as package
    from leveret import explore

    def scenario(broker):
        pass

    def test_it(leveret):
        explore(scenario(leveret))
    """,
    cause="scenario|None",
    way_out=r"explore\(scenario\)|the function|without calling",
)
# What was sent is not what was asked.
mistake(
    "a number as text",
    """
    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", json={"id": 7})
        leveret.assert_published("", json={"id": "7"})
    """,
    cause="7.*'7'|'7'.*7|id",
    way_out="id",
)
mistake(
    "a body that is no JSON",
    """
    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"{'id': 7}")
        leveret.assert_published("", json={"id": 7})
    """,
    cause="not JSON|no JSON",
    way_out="body=|not JSON|no JSON",
)
mistake(
    "a header with another value",
    """
    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7", headers={"x-reason": "stock"})
        leveret.assert_published("", headers={"x-reason": "price"})
    """,
    cause="stock",
    way_out="x-reason",
)
mistake(
    "a message that was published before its queue was bound",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("mails")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            channel.basic_publish("amq.topic", "order.created", b"7")
            channel.queue_bind("mails", "amq.topic", "order.#")
        leveret.assert_ready("mails", timeout=0.1)
    """,
    cause="no such binding yet",
    way_out="now it leads to 'mails'",
)
mistake(
    "a reply whose correlation id is not that of the request",
    """
    import pika
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("replies")
        with connect(leveret.url) as connection:
            properties = pika.BasicProperties(correlation_id="a-2")
            connection.channel().basic_publish("", "replies", b"49", properties)
        leveret.assert_published("", routing_key="replies", correlation_id="a-1")
    """,
    cause="a-2",
    way_out="correlation_id",
)
# What a test does not see, although production would lose it.
mistake(
    "a transaction without a commit",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            channel.tx_select()
            channel.basic_publish("", "orders", b"7")
            leveret.assert_published("", routing_key="orders")
    """,
    cause="it is uncommitted",
    way_out="tx.commit",
)
mistake(
    "a transaction that its fixture closes",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            channel.tx_select()
            channel.basic_publish("", "orders", b"7")
    """,
    cause="uncommitted: 1 message lost",
    way_out="without tx.commit",
)
mistake(
    "a message that does not survive a restart",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        with connect(leveret.url) as connection:
            connection.channel().basic_publish("", "orders", b"7")
        leveret.restart()
    """,
    cause="lost_at_restart: 1 message lost",
    way_out="delivery_mode=2",
)
mistake(
    "a message of aio-pika that is returned",
    """
    import asyncio
    import aio_pika

    async def place(url):
        async with await aio_pika.connect_robust(url) as connection:
            channel = await connection.channel()
            await channel.default_exchange.publish(aio_pika.Message(b"7"), "ordrs")

    def test_it(leveret):
        leveret.declare_queue("orders")
        asyncio.run(place(leveret.url))
    """,
    cause="there is no queue 'ordrs' .nearest: 'orders'.; it was returned",
    way_out="on_return_raises=True",
)
mistake(
    "a forgotten ack of a client that its fixture closes",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        with connect(leveret.url) as connection:
            connection.channel().basic_get("orders")
    """,
    cause="unacked_at_end: 1 message delivered but not acked",
    way_out="closed its channel without an ack",
)
mistake(
    "a fault that fires less often than the test says",
    """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        leveret.faults.nack_publishes(times=3)
        with connect(leveret.url) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            try:
                channel.basic_publish("", "orders", b"7")
            except Exception:
                pass
    """,
    cause="fired only 1 time of times=3",
    way_out="optional=True",
)
mistake(
    "an assertion that fails in a task that is never awaited",
    """
    import asyncio

    def test_it(leveret):
        async def check():
            await leveret.aio.assert_published("", routing_key="orders")

        async def test():
            task = asyncio.create_task(check())
            await asyncio.wait([task])

        leveret.declare_queue("orders")
        asyncio.run(test())
    """,
    cause="the task that failed, at .* in check",
    way_out="write await task",
)
mistake(
    "an assertion that nothing happened, on a broker that no client reached",
    """
    def place_order(url):
        pass

    def test_it(leveret):
        place_order("amqp://elsewhere")
        leveret.assert_not_published()
    """,
    cause="no_client: 1 broker to which no client came",
    way_out="assert_not_published at .* passed, but without a client nothing could happen",
)
mistake(
    "a broker that the test never touches",
    """
    def test_it(leveret):
        assert True
    """,
    cause="no_client: 1 broker to which no client came",
    way_out="leave the argument out",
)
