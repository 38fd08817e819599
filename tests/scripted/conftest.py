"""Fixtures: a broker, an RPC client that sends requests, and one that replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pika
import pytest

from leveret import Broker

PATIENCE = 30


class Asker:
    """A client that sends requests and collects the replies, by direct reply-to or in a queue of its own."""

    def __init__(self, broker: Broker, *, is_direct: bool = True) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        self._channel = self.connection.channel()
        self.replies: list[tuple[pika.BasicProperties, bytes]] = []
        self._reply_to = "amq.rabbitmq.reply-to"
        if not is_direct:
            self._reply_to = self._channel.queue_declare("", exclusive=True).method.queue
        self._channel.basic_consume(self._reply_to, self._on_reply, auto_ack=True)

    def _on_reply(self, channel, method, properties, body) -> None:
        self.replies.append((properties, body))

    def ask(self, queue: str, body: bytes = b"", correlation_id: str = "1") -> None:
        properties = pika.BasicProperties(reply_to=self._reply_to, correlation_id=correlation_id)
        self._channel.basic_publish("", queue, body, properties)

    def answers(self, count: int) -> list[bytes]:
        """Wait for this many replies in all and return their bodies."""
        while len(self.replies) < count:
            before = len(self.replies)
            self.connection.process_data_events(PATIENCE)
            assert len(self.replies) > before, f"{before} replies came, not {count}"
        return [body for _, body in self.replies]

    def answer(self, queue: str, body: bytes = b"") -> bytes:
        self.ask(queue, body)
        return self.answers(len(self.replies) + 1)[-1]


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker().start()
    yield broker
    broker.stop()


@pytest.fixture
def make_asker(broker: Broker) -> Iterator[Callable[..., Asker]]:
    askers = []

    def make(**options: bool) -> Asker:
        askers.append(Asker(broker, **options))
        return askers[-1]

    yield make
    for asker in askers:
        with suppress(pika.exceptions.AMQPError):
            asker.connection.close()


@pytest.fixture
def asker(make_asker: Callable[..., Asker]) -> Asker:
    return make_asker()
