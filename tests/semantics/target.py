"""Where scenarios run: leveret, or a real RabbitMQ. No other file here knows either.

An endpoint is a fresh virtual host for one run. Its name, and the names of users, contain a token of eight letters. On
a server the token differs from run to run; on leveret it is ``scenario``. So texts have the same length everywhere.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from .operators import HttpOperator, LeveretOperator, Operator

if TYPE_CHECKING:
    from leveret import Broker

    from .client import Connection

PERMIT = frozenset({"transient_nonexcl_queues"})
# Lines of rabbitmq.conf that the scenarios of the area node_settings test.
SETTINGS: dict[str, int | bool] = {
    "channel_max": 3,
    "channel_max_per_node": 4,
    "cluster_exchange_limit": 16,
    "cluster_queue_limit": 3,
    "connection_max": 4,
    "consumer_max_per_channel": 2,
    "consumer_timeout": 4000,
    "deprecated_features.permit.transient_nonexcl_queues": False,
    "frame_max": 16_384,
    "heartbeat": 7,
    "max_message_size": 1000,
    "message_interceptors.incoming.set_header_routing_node.overwrite": False,
    "message_interceptors.incoming.set_header_timestamp.overwrite": False,
}


class Endpoint(Protocol):
    """What a run needs to know about the server it talks to."""

    version: str
    address: tuple[str, int]
    token: str
    vhost: str
    operator: Operator
    # How long to wait for an immediate reply.
    limit_seconds: float
    # How often to poll for effects of other processes of a server.
    patience: int
    # 1 if waiting takes real time, 0 if a clock is advanced.
    real_time: int

    def user(self, name: str) -> str: ...
    def elapse(self, milliseconds: int, connections: list[Connection]) -> None: ...
    def elapse_liveness(self, milliseconds: int) -> None: ...


class LeveretEndpoint:
    """A broker in this process."""

    token = "scenario"
    vhost = "scenario"
    # A busy machine may take seconds; a scenario that passes never waits so long.
    limit_seconds = 30.0
    patience = 2
    real_time = 0

    def __init__(self, broker: Broker, version: str) -> None:
        self.version = version
        self.address = (broker.host, broker.port)
        self.operator: Operator = LeveretOperator(broker, self.user)
        self.broker = broker

    def user(self, name: str) -> str:
        return name if name == "guest" else f"{name}.{self.token}"

    def elapse(self, milliseconds: int, connections: list[Connection]) -> None:
        self.broker.sync()
        self.broker.clock.advance(ms=milliseconds, settle=0)

    def elapse_liveness(self, milliseconds: int) -> None:
        if milliseconds:
            self.broker.sync()
            self.broker.clock.advance(ms=milliseconds, settle=0, heartbeats=True)


@contextmanager
def leveret(
    version: str, *, has_settings: bool = False, broker_type: Callable[..., Broker] | None = None
) -> Iterator[LeveretEndpoint]:
    """Start a fresh broker with the vhost of the scenario, and with SETTINGS on request."""
    from leveret import Broker

    settings, permit = (SETTINGS, frozenset[str]()) if has_settings else ({}, PERMIT)
    with (broker_type or Broker)(rabbitmq=version, settings=settings, permit=permit) as broker:
        if has_settings:
            # A server's default vhost has two more exchanges, of its log and of a plugin; they count towards the limit.
            broker.declare_exchange("stands for amq.rabbitmq.log")
            broker.declare_exchange("stands for amq.rabbitmq.event")
        endpoint = LeveretEndpoint(broker, version)
        endpoint.operator.add_vhost(endpoint.vhost)
        endpoint.operator.set_permissions("guest", endpoint.vhost)
        yield endpoint


# What starts a broker of leveret for a program.
Start = Callable[[str], AbstractContextManager[LeveretEndpoint]]


class OracleEndpoint:
    """A vhost of a running RabbitMQ."""

    limit_seconds = 10.0
    patience = 1000
    real_time = 1

    def __init__(self, url: str, version: str) -> None:
        parts = urlsplit(url)
        self.version = version
        self.address = (parts.hostname or "127.0.0.1", parts.port or 5672)
        self.token = self.vhost = secrets.token_hex(4)
        self.operator: Operator = HttpOperator(self.address, self.user)

    def user(self, name: str) -> str:
        return name if name == "guest" else f"{name}.{self.token}"

    def elapse(self, milliseconds: int, connections: list[Connection]) -> None:
        living = [connection for connection in connections if not connection.is_ended]
        for index, connection in enumerate(living):
            connection.read_for(milliseconds / 1000 if index == 0 else 0.001)

    def elapse_liveness(self, milliseconds: int) -> None:
        """Do nothing: real time passes while the scenario reads."""


@contextmanager
def oracle(url: str, version: str) -> Iterator[OracleEndpoint]:
    """Create a fresh vhost on a server, and remove it afterwards."""
    endpoint = OracleEndpoint(url, version)
    endpoint.operator.add_vhost(endpoint.vhost)
    endpoint.operator.set_permissions("guest", endpoint.vhost)
    try:
        yield endpoint
    finally:
        endpoint.operator.clean_up(endpoint.vhost)


def oracles() -> dict[str, str]:
    """Return the URL of each version, from LEVERET_ORACLES."""
    pairs = filter(None, os.environ.get("LEVERET_ORACLES", "").split(","))
    return dict(pair.split("=", 1) for pair in pairs)
