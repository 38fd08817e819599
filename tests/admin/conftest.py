"""Fixtures: a broker and connections to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from leveret import Broker

PATIENCE = 30


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[..., BlockingConnection]]:
    """Return a function that connects to a virtual host as a user, under a name."""
    opened: list[BlockingConnection] = []

    def open_connection(vhost: str = "/", user: str = "guest", password: str | None = None, name: str = "test"):
        parameters = pika.URLParameters(broker.url_for(vhost, user, password))
        parameters.client_properties = {"connection_name": name}
        parameters.blocked_connection_timeout = None
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield open_connection
    for connection in opened:
        if connection.is_open:
            with suppress(pika.exceptions.AMQPError):
                connection.close()


@pytest.fixture
def reason_of_close() -> Callable[[BlockingConnection], str]:
    """Return a function that waits until the broker closes a connection, and returns the reply text."""

    def wait(connection: BlockingConnection) -> str:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.process_data_events(PATIENCE)
        assert closed.value.reply_code == 320
        return closed.value.reply_text

    return wait
