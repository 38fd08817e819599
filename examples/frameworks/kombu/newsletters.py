"""A worker that sends newsletters with kombu's ConsumerMixin, which connects again by itself.

A letter whose mail server is down goes to `letters.later`, where it waits for five minutes. A letter without an address
is set aside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kombu import Connection, Consumer, Exchange, Message, Queue
from kombu.mixins import ConsumerMixin

TO_LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters", "x-message-ttl": 300_000}
TO_FAILED = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters.failed"}

NEWSLETTERS = Exchange("newsletters", type="topic", durable=True)
LETTERS = Queue("letters", NEWSLETTERS, routing_key="letter.#", queue_arguments=TO_FAILED)
LATER = Queue("letters.later", queue_arguments=TO_LETTERS)
FAILED = Queue("letters.failed")


class MailServerDownError(Exception):
    """The mail server takes no letters now."""


class Worker(ConsumerMixin):  # type: ignore[misc]
    """The worker: `run` consumes until `should_stop` is set."""

    def __init__(self, connection: Connection, send: Callable[[str], None]) -> None:
        """`send` gets the address of each letter."""
        self.connection = connection
        self.send = send

    def get_consumers(self, consumer: type[Consumer], channel: Any) -> list[Consumer]:
        """Declare the queues, and consume letters one at a time."""
        for queue in (FAILED, LATER):
            queue(channel).declare()
        return [consumer([LETTERS], callbacks=[self.on_letter], accept=["json"], prefetch_count=1)]

    def on_letter(self, letter: dict[str, Any], message: Message) -> None:
        """Send one letter, keep it for later, or set it aside."""
        if "to" not in letter:
            message.reject()
            return
        try:
            self.send(letter["to"])
        except MailServerDownError:
            with self.connection.clone() as connection:
                publish(connection, letter, routing_key=LATER.name)
        message.ack()


def publish(connection: Connection, letter: dict[str, Any], *, routing_key: str, exchange: Any = "") -> None:
    """Publish a letter, and wait until the broker has it."""
    with connection.Producer() as producer:
        producer.publish(letter, exchange=exchange, routing_key=routing_key, serializer="json")


def send_newsletter(amqp_url: str, addresses: list[str]) -> None:
    """Hand a letter for each address to the worker."""
    with Connection(amqp_url, transport_options={"confirm_publish": True}) as connection:
        for address in addresses:
            publish(connection, {"to": address}, routing_key="letter.weekly", exchange=NEWSLETTERS)
