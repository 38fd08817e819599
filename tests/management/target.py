"""Where scenarios run: leveret's handlers, called without a socket, or the management port of a real RabbitMQ."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.semantics import target as amqp_target
from tests.semantics.target import Endpoint

from .scenario import Answer, Asking

_MANAGEMENT_PORT_OFFSET = 10_000


@contextmanager
def leveret(version: str) -> Iterator[tuple[Endpoint, Asking]]:
    """Start a broker, and ask its management handlers."""
    from leveret.http.management.management import Management
    from leveret.http.messages import Request

    with amqp_target.leveret(version) as endpoint:
        handler = Management(endpoint.broker._engine)

        def ask(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
            path, _, query = target.partition("?")
            sent = {name.lower(): value for name, value in headers.items()}
            response = handler.handle(Request(method, path, query, sent, body))
            assert isinstance(response.body, bytes)
            # The server leaves out the body of an answer to HEAD.
            sent_body = b"" if method == "HEAD" else response.body
            return response.status, {name.lower(): value for name, value in response.headers}, sent_body

        yield endpoint, ask


@contextmanager
def oracle(url: str, version: str) -> Iterator[tuple[Endpoint, Asking]]:
    """Create a virtual host on a server, and ask its management port, which is the AMQP port + 10000."""
    with amqp_target.oracle(url, version) as endpoint:
        host, port = endpoint.address

        def ask(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
            connection = http.client.HTTPConnection(host, port + _MANAGEMENT_PORT_OFFSET, timeout=30)
            sent = {**headers, "content-length": str(len(body))} if body else dict(headers)
            connection.request(method, target, body or None, sent)
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text

        yield endpoint, ask
