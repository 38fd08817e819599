"""Fixtures: a broker and clients of it, pika on this thread and a worker on another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pika
import pytest

from leveret import Broker

PATIENCE = 30


def read_close(connection: pika.BlockingConnection) -> None:
    """Read until pika raises the error that closed the connection; a write would raise only the reset after it."""
    connection.process_data_events(PATIENCE)


@pytest.fixture(name="read_close")
def read_close_of() -> Callable[[pika.BlockingConnection], None]:
    return read_close


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def channel(broker: Broker) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield connection.channel()
    with suppress(pika.exceptions.AMQPError):
        connection.close()


class Worker:
    """A consumer on a thread of its own that settles each message as `handle` says: "ack", "reject" or "keep"."""

    def __init__(self, broker: Broker, queue: str, handle: Callable[[object, bytes], str]) -> None:
        parameters = pika.URLParameters(broker.url)
        parameters.client_properties = {"connection_name": "worker"}
        self._connection = pika.BlockingConnection(parameters)
        self._channel = self._connection.channel()
        self._handle = handle
        self._channel.basic_consume(queue, self._on_message)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._channel.start_consuming()
        except pika.exceptions.AMQPError:
            return

    def _on_message(self, channel, method, properties, body) -> None:
        verdict = self._handle(channel, body)
        if verdict == "ack":
            channel.basic_ack(method.delivery_tag)
        elif verdict == "reject":
            channel.basic_reject(method.delivery_tag, requeue=False)

    def stop(self) -> None:
        if self._thread.is_alive() and self._connection.is_open:
            self._connection.add_callback_threadsafe(self._channel.stop_consuming)
        self._thread.join(PATIENCE)
        if self._connection.is_open:
            self._connection.close()


@pytest.fixture
def work(broker: Broker) -> Iterator[Callable[..., Worker]]:
    workers = []

    def start(queue: str, handle: Callable[[object, bytes], str] = lambda channel, body: "ack") -> Worker:
        workers.append(Worker(broker, queue, handle))
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()
