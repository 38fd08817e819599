"""Fixtures for the py-amqp tests: an open connection, with or without publisher confirms, and a channel."""

from urllib.parse import unquote, urlsplit

import amqp
import pytest


@pytest.fixture
def connect(broker_url, patience):
    """Return a function that opens one more connection; all of them are closed when the test ends."""
    broker = urlsplit(broker_url)
    opened = []

    def connect(**options):
        defaults = {
            "host": f"{broker.hostname}:{broker.port}",
            "userid": broker.username,
            "password": broker.password,
            "virtual_host": unquote(broker.path[1:]) or "/",
            "connect_timeout": patience,
            "read_timeout": patience,
            "write_timeout": patience,
        }
        connection = amqp.Connection(**defaults | options)
        connection.connect()
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect):
    return connect(confirm_publish=True)


@pytest.fixture
def channel(connection):
    return connection.channel()


@pytest.fixture
def ready_count(connection):
    """Return a function that counts the ready messages of a queue."""

    def ready_count(name):
        with connection.channel() as channel:
            return channel.queue_declare(name, passive=True).message_count

    return ready_count


@pytest.fixture
def drain(connection, patience):
    """Return a function that reads from the connection until a list has the wanted length."""

    def drain(collected, count):
        while len(collected) < count:
            connection.drain_events(timeout=patience)
        return collected

    return drain
