"""pika on leveret, and on a RabbitMQ of pytest-rabbitmq, whose fixture is a connection and cleans up.

By default it asks rabbitmqctl what to delete. With a clean-up of its own, as its documentation recommends, a test
deletes the queue that it knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pika
import pytest

if os.environ["PEER"].startswith("pytest-rabbitmq"):
    from pytest_rabbitmq import factories

    with_own_clean_up = factories.rabbitmq(
        "rabbitmq_proc", teardown=lambda process, connection: connection.channel().queue_delete("orders")
    )


@pytest.fixture
def connection(url: str | None, request: pytest.FixtureRequest) -> Iterator[pika.BlockingConnection]:
    if url is None:
        yield request.getfixturevalue("rabbitmq" if os.environ["PEER"] == "pytest-rabbitmq" else "with_own_clean_up")
    else:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            yield connection


def test_an_order_is_consumed(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b'{"id": 7}')

    method, _, body = next(channel.consume("orders", inactivity_timeout=5))
    channel.basic_ack(method.delivery_tag)

    assert body == b'{"id": 7}'
