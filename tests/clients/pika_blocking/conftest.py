"""Fixtures for the tests of pika's BlockingConnection: an open connection and a channel on it."""

import pika
import pytest


@pytest.fixture
def connect(broker_url, patience):
    """Return a function that opens one more connection; all of them are closed when the test ends."""
    parameters = pika.URLParameters(broker_url)
    parameters.blocked_connection_timeout = parameters.socket_timeout = patience
    opened = []

    def connect():
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield connect
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def connection(connect):
    return connect()


@pytest.fixture
def channel(connection):
    return connection.channel()


@pytest.fixture
def take(patience):
    """Return a function that consumes a number of messages and returns their (method, properties, body)."""

    def take(channel, queue, count, **options):
        messages = []
        for message in channel.consume(queue, inactivity_timeout=patience, **options):
            if message == (None, None, None):
                break
            messages.append(message)
            if len(messages) == count:
                break
        assert len(messages) == count
        return messages

    return take
