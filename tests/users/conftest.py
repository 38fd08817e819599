"""A broker for the cases that users of other projects have reported, and what the checks say of it."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pika
import pytest

from leveret import Broker, LeveretWarning
from tests.scripted.conftest import asker, make_asker

__all__ = ["asker", "make_asker"]

PATIENCE = 30

Handler = Callable[[pika.adapters.blocking_connection.BlockingChannel, bytes], None]


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can move: asyncio's own time-outs come when it says so."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


@contextmanager
def told(broker: Broker) -> Iterator[list[str]]:
    """What the checks say at the end of the block."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeveretWarning)
        yield texts
        broker.check()
    texts += [str(one.message) for one in caught if one.category is LeveretWarning]


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker().start()
    yield broker
    broker.stop()


@pytest.fixture
def channel(broker: Broker) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield connection.channel()
    with suppress(pika.exceptions.AMQPError):
        connection.close()


@pytest.fixture
def work(broker: Broker) -> Iterator[Callable[[str, Handler], None]]:
    """Start a worker as pika's documentation has it: on a thread, beginning anew when it has lost its connection."""
    is_over = threading.Event()
    threads: list[threading.Thread] = []

    def start(queue: str, handle: Handler) -> None:
        threads.append(threading.Thread(target=consume_for_ever, args=(broker.url, queue, handle, is_over)))
        threads[-1].start()
        broker.wait_for_consumer(queue)

    yield start
    is_over.set()
    broker.stop()
    for thread in threads:
        thread.join(PATIENCE)


def consume_for_ever(url: str, queue: str, handle: Handler, is_over: threading.Event) -> None:
    while not is_over.is_set():
        with suppress(pika.exceptions.AMQPError):
            consume_until_lost(url, queue, handle)


def consume_until_lost(url: str, queue: str, handle: Handler) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        channel.basic_qos(prefetch_count=1)
        for method, _, body in channel.consume(queue):
            handle(channel, body)
            channel.basic_ack(method.delivery_tag)
