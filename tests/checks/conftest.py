"""Fixtures: a broker with strict checks, and a client of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import pika
import pytest

from leveret import Broker, LeveretWarning


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker(checks="all=warning").start()
    broker.declare_queue("orders.work")
    broker.declare_exchange("orders", "topic")
    broker.bind_queue("orders.work", "orders", "order.#")
    yield broker
    broker.stop()


@pytest.fixture
def connect() -> Iterator[Callable[..., pika.BlockingConnection]]:
    connections = []

    def connect(broker: Broker, name: str = "shop") -> pika.BlockingConnection:
        parameters = pika.URLParameters(broker.url)
        parameters.client_properties = {"connection_name": name}
        connections.append(pika.BlockingConnection(parameters))
        return connections[-1]

    yield connect
    for connection in connections:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


@pytest.fixture
def found() -> Callable[[Broker], dict[str, str]]:
    """Return a function that returns the warnings of a broker's checks, by the name of the check."""

    def ask(broker: Broker) -> dict[str, str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            broker.check()
        texts = [str(one.message) for one in caught if one.category is LeveretWarning]
        return {text.partition(":")[0]: text for text in texts}

    return ask
