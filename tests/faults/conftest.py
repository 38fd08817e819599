"""Fixtures for tests of faults with real clients: a broker with a queue, and pika's connections to it."""

from __future__ import annotations

import contextlib

import amqp
import pika
import pytest

from leveret import Broker

PATIENCE = 30


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.declare_queue("work")
        yield broker


@pytest.fixture
def connect(broker):
    opened = []

    def connect(**options):
        parameters = pika.URLParameters(broker.url)
        parameters.socket_timeout = PATIENCE
        for name, value in options.items():
            setattr(parameters, name, value)
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield connect
    for connection in opened:
        if connection.is_open:
            with contextlib.suppress(Exception):
                connection.close()


@pytest.fixture
def channel(connect):
    return connect().channel()


@pytest.fixture
def plain_connection(broker):
    """A py-amqp connection, which reads only on an explicit call."""
    connection = amqp.Connection(broker.url.removeprefix("amqp://guest:guest@"), connect_timeout=PATIENCE)
    connection.connect()
    yield connection
    connection.collect()


def bodies(broker):
    """Return the bodies of the ready messages."""
    return [message.body for message in broker.queue("work").ready]
