"""A broker without a thread: clients that block use it on the thread that serves it."""

from __future__ import annotations

import asyncio
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator

import aio_pika
import kombu
import pika
import pytest

from leveret import Broker, BrokerError

Channel = pika.adapters.blocking_connection.BlockingChannel


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(inline=True) as broker:
        yield broker


@pytest.fixture
def channel(broker: Broker) -> Iterator[Channel]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        yield channel


def test_pika_needs_no_thread(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a thread starts")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    threads = threading.enumerate()

    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        connection.channel().confirm_delivery()
        assert threading.enumerate() == threads


def test_a_consumer_gets_what_it_has_published(broker: Broker, channel: Channel) -> None:
    bodies: list[bytes] = []

    def take(channel: Channel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        channel.stop_consuming()

    channel.basic_publish("", "orders", b"x" * 3_000_000)
    channel.basic_consume("orders", take)
    channel.start_consuming()

    assert [len(body) for body in bodies] == [3_000_000]
    broker.assert_acked("orders")


def test_kombu_uses_it_as_it_is(broker: Broker) -> None:
    with kombu.Connection(broker.url) as connection, connection.SimpleQueue("jobs") as queue:
        queue.put({"id": 1})
        message = queue.get(timeout=5)

        assert message.payload == {"id": 1}
        message.ack()


def test_two_brokers_and_their_clients_share_a_thread(broker: Broker, channel: Channel) -> None:
    with Broker(inline=True) as other, pika.BlockingConnection(pika.URLParameters(other.url)) as connection:
        connection.channel().queue_declare("others", durable=True)
        channel.basic_publish("", "orders", b"mine")

        assert [queue.name for queue in other.queues] == ["others"]
        broker.assert_published(routing_key="orders", body=b"mine")


def test_two_runs_have_the_same_events() -> None:
    def events() -> list[str]:
        with Broker(inline=True) as broker:
            with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                channels = [connection.channel() for _ in range(3)]
                channels[0].queue_declare("q", durable=True)
                for number, channel in enumerate(channels):
                    channel.basic_publish("", "q", b"%d" % number)
                    channels[number - 1].basic_get("q", auto_ack=True)
            return [str(event).partition(" ")[2] for event in broker.events.events()]

    assert events() == events()


def test_a_request_is_answered_by_a_function_of_the_test(broker: Broker, channel: Channel) -> None:
    broker.respond("prices", lambda request: request.body.upper())
    reply_queue = channel.queue_declare("", exclusive=True).method.queue

    channel.basic_publish("", "prices", b"apple", pika.BasicProperties(reply_to=reply_queue))

    broker.assert_published(routing_key=reply_queue, body=b"APPLE", timeout=5)


def test_an_error_of_the_broker_reaches_the_client(channel: Channel) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
        channel.queue_declare("missing", passive=True)


def test_a_lost_connection_is_lost_for_the_client(broker: Broker, channel: Channel) -> None:
    broker.faults.reset_peer(on="basic.get")

    with pytest.raises(pika.exceptions.AMQPConnectionError):
        channel.basic_get("orders")


def test_an_hour_passes_when_the_test_says_so(broker: Broker, channel: Channel) -> None:
    channel.basic_publish("", "orders", b"late", pika.BasicProperties(expiration="3600000"))

    broker.clock.advance(hours=1)

    assert channel.basic_get("orders") == (None, None, None)


def test_what_is_due_soon_is_waited_for(broker: Broker, channel: Channel) -> None:
    channel.basic_publish("", "orders", b"late", pika.BasicProperties(expiration="50"))

    broker.assert_dropped("orders", reason="expired", timeout=30)


def test_a_wait_for_what_cannot_come_takes_no_time(broker: Broker) -> None:
    broker.declare_queue("orders")

    with pytest.raises(AssertionError):
        broker.assert_published(routing_key="orders", timeout=86_400)


def test_a_client_that_would_wait_for_ever_is_told(broker: Broker) -> None:
    with kombu.Connection(broker.url) as connection:
        connection.connect()

        with pytest.raises(BrokerError, match="for ever"):
            connection.drain_events()


def test_a_client_that_waits_with_a_timeout_times_out(broker: Broker) -> None:
    with socket.create_connection((broker.host, broker.port), 0.01) as client, pytest.raises(TimeoutError):
        client.recv(4096)


def test_bytes_of_no_protocol_get_the_header_and_a_reset(broker: Broker) -> None:
    with socket.create_connection((broker.host, broker.port), 1) as client:
        client.sendall(b"JUNKJUNK")

        assert client.recv(8) == b"AMQP\x03\x01\x00\x00"
        with pytest.raises(ConnectionResetError):
            client.recv(8)
        assert client.recv(8) == b""


def test_a_client_that_sends_no_more_gets_the_end(broker: Broker) -> None:
    with socket.create_connection((broker.host, broker.port), 1) as client:
        client.shutdown(socket.SHUT_WR)

        assert client.recv(8) == b""


def test_a_client_that_reads_no_more_is_still_heard(broker: Broker) -> None:
    with socket.create_connection((broker.host, broker.port), 1) as client:
        client.shutdown(socket.SHUT_RD)
        client.sendall(b"AMQP\x00\x00\x09\x01")

        assert client.recv(4) == b"\x01\x00\x00\x00"


def test_no_broker_at_a_port_is_a_refused_connection(broker: Broker) -> None:
    port = broker.port
    broker.stop()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_other_sockets_are_what_they_were(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"hello")

            assert select.select([client], [], [], 30)[0] == [client]
            assert client.recv(5) == b"hello"


def test_both_kinds_of_sockets_are_waited_for_together(broker: Broker) -> None:
    near, far = socket.socketpair()
    with near, far, socket.create_connection((broker.host, broker.port)) as client:
        assert select.select([near, client], [client], [], 0) == ([], [client], [])
        far.sendall(b"x")
        client.sendall(b"AMQP\0\0\x09\x01")

        assert select.select([near, client], [], [], 30) == ([near, client], [], [])


def test_the_worker_of_another_broker_is_read_beside_it(broker: Broker) -> None:
    program = [sys.executable, "-c", "print('hello')"]

    with Broker() as other:
        worker = other.worker(program, ready="hello").start()
        worker.wait_ready()

        assert worker.output == "hello\n"


def test_the_names_it_replaces_are_back_after_the_last_broker() -> None:
    def names() -> list[object]:
        return [socket.socket, select.select, threading.Timer, getattr(select, "poll", None)]

    before = names()
    with Broker(inline=True), Broker(inline=True):
        assert names() != before

    assert names() == before


def test_a_port_that_is_taken_is_named(broker: Broker) -> None:
    with pytest.raises(OSError, match=f"another inline broker listens on port {broker.port}"):
        Broker(inline=True, port=broker.port).start()


def test_a_client_on_asyncio_is_refused(broker: Broker) -> None:
    with pytest.raises(BrokerError, match="leave it out"):
        asyncio.run(aio_pika.connect(broker.url))


@pytest.mark.parametrize(
    "use",
    [
        lambda broker: broker.clock.autojump(),
        lambda broker: broker.worker(["true"]),
        lambda _: Broker(inline=True, management=True),
        lambda _: Broker(inline=True, tls=True),
    ],
)
def test_what_needs_a_thread_or_a_port_is_refused(broker: Broker, use: Callable[[Broker], object]) -> None:
    with pytest.raises(BrokerError, match="inline=True"):
        use(broker)
