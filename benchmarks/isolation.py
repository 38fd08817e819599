"""The cost of a fresh state for the next test: `reset()`, a new broker, and a virtual host of a RabbitMQ.

Each state is used before it is dropped: a client connects, declares three queues, and leaves. Only making and dropping
count. The figures are medians. A virtual host is made and deleted with its permissions through the management API.
"""

from __future__ import annotations

import base64
import http.client
import json
import statistics
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pika

from leveret import Broker

VHOSTS = 5
STATES = 25


class Management:
    """A client of RabbitMQ's management API."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port or 15672)
        login = base64.b64encode(f"{address.username or 'guest'}:{address.password or 'guest'}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: object = None) -> None:
        """Send one request. Raises RuntimeError if the server refuses it."""
        self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        response = self._connection.getresponse()
        response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {response.reason}")


def vhost_seconds(amqp_url: str, management_url: str) -> float:
    """Return the seconds to create and delete a virtual host."""
    management = Management(management_url)
    name = "leveret-benchmark"

    def one() -> float:
        started = time.perf_counter()
        management.ask("PUT", f"/api/vhosts/{name}", {})
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        management.ask("PUT", f"/api/permissions/{name}/{urlsplit(amqp_url).username or 'guest'}", rights)
        making = time.perf_counter() - started
        use(urlsplit(amqp_url)._replace(path=f"/{name}").geturl())
        started = time.perf_counter()
        management.ask("DELETE", f"/api/vhosts/{name}")
        return making + time.perf_counter() - started

    return median(one, VHOSTS)


def reset_seconds() -> float:
    """Return the seconds that `reset()` takes."""
    with Broker() as broker:

        def one() -> float:
            use(broker.url)
            started = time.perf_counter()
            broker.reset()
            return time.perf_counter() - started

        return median(one, STATES)


def broker_seconds() -> float:
    """Return the seconds to start and stop a broker."""

    def one() -> float:
        started = time.perf_counter()
        broker = Broker().start()
        making = time.perf_counter() - started
        use(broker.url)
        started = time.perf_counter()
        broker.stop()
        return making + time.perf_counter() - started

    return median(one, STATES)


def use(url: str) -> None:
    """Leave in the broker what a test leaves behind."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for number in range(3):
            channel.queue_declare(f"q{number}", durable=True)


def median(act: Callable[[], float], count: int) -> float:
    """Return the median of several measurements."""
    return statistics.median(act() for _ in range(count))
