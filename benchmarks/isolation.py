"""What a fresh state for the next test costs: `reset()` and a new broker, beside a virtual host of a RabbitMQ.

Each state is used before it is dropped: a client connects, declares three queues, and leaves. Only making and dropping
count, as medians of several. A virtual host is made and deleted over the management API, with its permissions.
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
    """RabbitMQ's management API."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port or 15672)
        login = base64.b64encode(f"{address.username or 'guest'}:{address.password or 'guest'}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: object = None) -> None:
        """One request; RuntimeError when it is refused."""
        self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        response = self._connection.getresponse()
        response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {response.reason}")


def vhost_seconds(amqp_url: str, management_url: str) -> float:
    """Seconds to create and delete a virtual host."""
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
    """Seconds that `reset()` takes."""
    with Broker() as broker:

        def one() -> float:
            use(broker.url)
            started = time.perf_counter()
            broker.reset()
            return time.perf_counter() - started

        return median(one, STATES)


def broker_seconds() -> float:
    """Seconds to start a broker and to stop it."""

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
    """What a test leaves behind."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for number in range(3):
            channel.queue_declare(f"q{number}", durable=True)


def median(act: Callable[[], float], count: int) -> float:
    """The median of several."""
    return statistics.median(act() for _ in range(count))
