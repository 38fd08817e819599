"""Traps of a broker in the test's own process: addresses, threads, sockets, Celery workers in the same process.

Apart from the Celery workers, none of this can be tested on a RabbitMQ elsewhere.
"""

import os
import socket
import threading
from urllib.parse import urlsplit

import celery
import pika
import pytest
from celery.contrib.testing.worker import start_worker


@pytest.fixture
def app(broker_url):
    """A Celery application that keeps its results on the same broker."""
    app = celery.Celery("traps", broker=broker_url, backend="rpc://")
    app.conf.update(
        broker_connection_retry_on_startup=False, broker_connection_timeout=5, worker_hijack_root_logger=False
    )

    @app.task(name="add", shared=False)
    def add(a, b):
        return a + b

    yield app
    app.close()


def works_for(app):
    with start_worker(app, perform_ping_check=False, shutdown_timeout=10):
        result = app.send_task("add", [20, 1]).get(timeout=10)
        # After this message the worker ends at once; otherwise its loop would wait for the next heartbeat first.
        app.control.shutdown()
    return result


def test_second_celery_worker_in_one_process(app):
    """The second worker of a test run hung with amqp:// (celery#5105)."""
    assert [works_for(app), works_for(app)] == [21, 21]


def open_sockets():
    """Return the names of the sockets that this process has open."""
    directory = "/proc/self/fd"
    names = [os.path.join(directory, name) for name in os.listdir(directory)]
    return {target for name in names if os.path.lexists(name) and (target := os.readlink(name)).startswith("socket:")}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the sockets of a process are listed on Linux only")
def test_stop_takes_milliseconds(make_broker):
    """A stop that waited for its own poll cost every test half a second (aiobotocore#1687).

    Wall time would make this test fail on a busy machine. Instead it checks what `stop` leaves behind when it returns:
    no thread, no socket and no port, although a client is still connected.
    """
    threads, sockets = set(threading.enumerate()), open_sockets()
    with make_broker() as broker:
        address = (broker.host, broker.port)
        client = socket.create_connection(address)
        client.sendall(b"AMQP\x00\x00\x09\x01")
        assert client.recv(1)
        assert open_sockets() - sockets

    client.close()
    # What an earlier test has left behind may end in the meantime.
    assert set(threading.enumerate()) <= threads
    assert open_sockets() <= sockets
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_two_brokers_share_nothing(make_broker):
    """Fakes keep their state in the module, so one test sees what another left (fakeredis#140, kombu's memory)."""
    with make_broker() as one, make_broker() as another:
        with pika.BlockingConnection(pika.URLParameters(one.url)) as connection:
            connection.channel().queue_declare("work", durable=True)

        assert one.port != another.port
        with pika.BlockingConnection(pika.URLParameters(another.url)) as connection:
            channel = connection.channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'work'"):
                channel.queue_declare("work", passive=True)


@pytest.fixture
def ipv6():
    """Skip the test on a machine without IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")


def test_ipv6_address_in_the_url(make_broker, ipv6):
    """An address with colons must be in brackets, or clients read its end as the port (amqp-mock#4)."""
    with make_broker(host="::1") as broker:
        assert urlsplit(broker.url).hostname == "::1"
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            assert connection.is_open


def test_ipv6_localhost_first(make_broker, ipv6, monkeypatch):
    """`localhost` may resolve to ::1 first, where no broker listens (amqp-mock#4): the URL must not depend on it."""
    resolve = socket.getaddrinfo

    def resolve_ipv6_first(host, port, family=0, *arguments, **options):
        if host == "localhost" and family == 0:
            return resolve("::1", port, family, *arguments, **options)
        return resolve(host, port, family, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_ipv6_first)
    with make_broker() as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        assert connection.is_open
