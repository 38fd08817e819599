"""Prices: a service that answers calls, and its caller, with pika and a reply queue that the broker names."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

import pika

PRICES = {"tea-1": 450, "cup-9": 1200}


def connect(url: str, name: str) -> pika.BlockingConnection:
    """Connect under a name."""
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)


class Prices:
    """Answers with the price of an article, in cents, or with null if there is none."""

    def __init__(self, url: str) -> None:
        self._connection = connect(url, "prices")
        self._channel = self._connection.channel()
        self._channel.queue_declare("prices", durable=True, arguments={"x-max-length": 1000})
        self._channel.basic_consume("prices", self._answer)
        self._thread = threading.Thread(target=self._channel.start_consuming)
        self._thread.start()

    def stop(self) -> None:
        """End the work."""
        self._connection.add_callback_threadsafe(self._channel.stop_consuming)
        self._thread.join()
        self._connection.close()

    def _answer(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        call = json.loads(body)
        answer = {"sku": call["sku"], "cents": PRICES.get(call["sku"])}
        channel.basic_publish(
            "",
            properties.reply_to,
            json.dumps(answer).encode(),
            pika.BasicProperties(correlation_id=properties.correlation_id, content_type="application/json"),
        )
        channel.basic_ack(method.delivery_tag)


class Caller:
    """Asks for prices."""

    def __init__(self, url: str) -> None:
        self._connection = connect(url, "web")
        self._channel = self._connection.channel()
        self._replies = self._channel.queue_declare("", exclusive=True).method.queue

    def price(self, sku: str) -> int | None:
        """Return the price of an article."""
        properties = pika.BasicProperties(
            reply_to=self._replies, correlation_id=str(uuid.uuid4()), content_type="application/json", expiration="5000"
        )
        self._channel.basic_publish("", "prices", json.dumps({"sku": sku}).encode(), properties)
        for method, _, body in self._channel.consume(self._replies, inactivity_timeout=5):
            assert method is not None
            self._channel.basic_ack(method.delivery_tag)
            self._channel.cancel()
            cents: int | None = json.loads(body)["cents"]
            return cents
        return None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
