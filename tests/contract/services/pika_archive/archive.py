"""The archive: it keeps scans, which are bytes, and logs, which are lines of text, with pika."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import pika


class Scanner:
    """Sends pages to the archive."""

    def __init__(self, url: str) -> None:
        parameters = pika.URLParameters(url)
        parameters.client_properties = {"connection_name": "scanner"}
        self._connection = pika.BlockingConnection(parameters)
        self._channel = self._connection.channel()
        self._channel.exchange_declare("scans", "fanout", durable=True)

    def scan(self, page: bytes, *, document: int) -> None:
        """Send a page, compressed."""
        properties = pika.BasicProperties(
            content_type="image/png", content_encoding="deflate", headers={"document": document, "bytes": len(page)}
        )
        self._channel.basic_publish("scans", "", zlib.compress(page), properties)

    def log(self, lines: Iterable[str]) -> None:
        """Send lines of the log."""
        for line in lines:
            properties = pika.BasicProperties(content_type="text/plain", type="log.line")
            self._channel.basic_publish("scans", "", line.encode(), properties)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Archive:
    """Takes what waits in its queue."""

    def __init__(self, url: str) -> None:
        parameters = pika.URLParameters(url)
        parameters.client_properties = {"connection_name": "archive"}
        self._connection = pika.BlockingConnection(parameters)
        self._channel = self._connection.channel()
        self._channel.exchange_declare("scans", "fanout", durable=True)
        self._channel.queue_declare("archive", durable=True, arguments={"x-queue-type": "quorum"})
        self._channel.queue_bind("archive", "scans")
        self.pages: list[bytes] = []

    def take(self, count: int) -> None:
        """Take so many messages, and keep the pages among them."""
        for method, properties, body in self._channel.consume("archive", inactivity_timeout=5):
            assert method is not None
            if properties.content_encoding == "deflate":
                self.pages.append(zlib.decompress(body))
            self._channel.basic_ack(method.delivery_tag)
            count -= 1
            if count == 0:
                break
        self._channel.cancel()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
