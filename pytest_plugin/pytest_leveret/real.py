"""The same tests on a real RabbitMQ: `--leveret-real amqp://...`.

Each broker of a test is a virtual host of its own there, made and deleted through the management API. What a real
server can do, a `RealBroker` does; a test that asks for more is skipped, and the reason names what it asked for.
"""

from __future__ import annotations

import json
import os
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

from pytest_leveret.management import Management, ManagementError, url_beside
from pytest_leveret.options import Settings

if TYPE_CHECKING:
    from leveret.observe.message_view import MessageView

_FLAG: Final = "--leveret-real"
_MANAGEMENT_FLAG: Final = "--leveret-real-management"
_SERVER: Final = pytest.StashKey["Server"]()
_PEEKED: Final = 100_000
# What decides how leveret behaves and is settled by the server here, or concerns leveret's own records.
_IGNORED: Final = frozenset(
    {"seed", "record", "trace_dir", "trace_bodies", "trace_redact", "checks", "permit", "plugins", "host", "port"}
)


def add_options(parser: pytest.Parser) -> None:
    """Tell pytest of the server to run on."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
    group.addoption(
        _FLAG,
        dest="leveret_real",
        metavar="URL",
        default=os.environ.get("LEVERET_REAL"),
        help="run on this RabbitMQ, amqp://user:password@host:port, each test in a virtual host of its own",
    )
    group.addoption(
        _MANAGEMENT_FLAG,
        dest="leveret_real_management",
        metavar="URL",
        default=os.environ.get("LEVERET_REAL_MANAGEMENT"),
        help="where its management API is (default: the same host and user, at the AMQP port + 10000)",
    )


class Server:
    """This is the RabbitMQ that the run was given."""

    def __init__(self, amqp_url: str, management_url: str | None) -> None:
        """ManagementError when it cannot be asked or is no RabbitMQ."""
        self.parts = urlsplit(amqp_url)
        if self.parts.scheme not in ("amqp", "amqps") or not self.parts.hostname:
            raise ManagementError(f"{amqp_url!r} is no URL of a RabbitMQ, as amqp://guest:guest@localhost:5672")
        self.management = Management(management_url or url_beside(amqp_url))
        self.user = self.parts.username or "guest"
        self.version = str(self.management.ask("GET", "overview")["rabbitmq_version"])

    def url_for(self, vhost: str) -> str:
        """The URL of a virtual host."""
        return urlunsplit((self.parts.scheme, self.parts.netloc, f"/{quote(vhost, safe='')}", "", ""))


def prepare(config: pytest.Config) -> None:
    """Find the server that was asked for; UsageError when it cannot be used."""
    url, management_url = config.getoption("leveret_real"), config.getoption("leveret_real_management")
    if url is None:
        if management_url is not None:
            raise pytest.UsageError(f"{_MANAGEMENT_FLAG} says nothing without {_FLAG}")
        return
    try:
        config.stash[_SERVER] = Server(url, management_url)
    except ManagementError as error:
        hint = f"enable the management plugin there, or name its place with {_MANAGEMENT_FLAG}"
        raise pytest.UsageError(f"{_FLAG}: {error}; {hint}") from None


def server_of(config: pytest.Config) -> Server | None:
    """The server this run is on; None for a run on leveret."""
    return config.stash.get(_SERVER, None)


def place(config: pytest.Config) -> str | None:
    """What the header of a run says of its server."""
    server = server_of(config)
    return None if server is None else f"a real RabbitMQ {server.version} at {server.parts.hostname}"


def skip_marked(item: pytest.Item) -> None:
    """Skip a test whose marker asks for what only leveret can do."""
    if server_of(item.config) is None:
        return
    for name, power in (("leveret_fault", "faults"), ("leveret_explore", "exploration")):
        if item.get_closest_marker(name) is not None:
            _skip(power)


@contextmanager
def virtual_hosts(server: Server, settings: Settings) -> Iterator[Callable[..., RealBroker]]:
    """A function that makes a virtual host for each broker; all are deleted at the end."""
    made: list[RealBroker] = []

    def make(**overrides: Any) -> RealBroker:
        _skip_impossible(server, {word: setting.value for word, setting in settings.items()} | overrides)
        made.append(RealBroker(server, f"leveret-{uuid.uuid4().hex[:12]}"))
        return made[-1]

    try:
        yield make
    finally:
        for broker in made:
            broker.stop()


def _skip_impossible(server: Server, options: Mapping[str, Any]) -> None:
    """Skip a test whose options no real server can follow."""
    wanted = options.get("rabbitmq")
    if wanted is not None and server.version.split(".")[:2] != str(wanted).split(".")[:2]:
        pytest.skip(f"this test is about RabbitMQ {wanted}; the server is {server.version}")
    for word, value in options.items():
        if word not in _IGNORED and word != "rabbitmq" and value:
            _skip(f"{word}={value!r}")


def _skip(power: str) -> NoReturn:
    pytest.skip(f"needs leveret: {power} is nothing a test can ask of a real RabbitMQ")


class RealQueue:
    """This is what can be seen of a queue on a real server."""

    def __init__(self, told: Mapping[str, Any], ready: tuple[MessageView, ...]) -> None:
        self.name: str = told["name"]
        self.durable: bool = told["durable"]
        self.auto_delete: bool = told["auto_delete"]
        self.arguments: dict[str, object] = told["arguments"]
        self.type: str = told.get("type", "classic")
        # Peeked at: taken, and put back in their places.
        self.ready = ready

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(f"queue(...).{name}", name, _names_of("leveret.observe.views", "QueueView"))

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} ({self.type}) of a real RabbitMQ: {len(self.ready)} ready>"


class RealBroker:
    """This stands for `leveret.Broker` in a run on a real server: one virtual host there, with the same names.

    Whatever a real server cannot tell or do skips the test that asks.
    """

    def __init__(self, server: Server, vhost: str) -> None:
        self._server = server
        self._vhost = vhost
        self.host = server.parts.hostname
        self.port = server.parts.port or (5671 if server.parts.scheme == "amqps" else 5672)
        self._ask("PUT", "vhosts", vhost)
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self._ask("PUT", "permissions", vhost, server.user, body=everything)

    @property
    def rabbitmq(self) -> str:
        """The version of the server without its last part, as `Broker.rabbitmq` has it."""
        return ".".join(self._server.version.split(".")[:2])

    @property
    def url(self) -> str:
        """The URL of this test's virtual host."""
        return self._server.url_for(self._vhost)

    def url_for(self, vhost: str = "/", **options: Any) -> str:
        """The same, for the virtual host that stands for "/"; others are leveret's own."""
        if vhost != "/" or options:
            _skip("url_for() another virtual host or user")
        return self.url

    def stop(self) -> None:
        """Delete the virtual host and all that is in it; connections to it are closed by the server."""
        with suppress(ManagementError):
            self._server.management.ask("DELETE", "vhosts", self._vhost)

    def publish(
        self,
        exchange: str = "",
        routing_key: str = "",
        body: bytes | str = b"",
        *,
        mandatory: bool = False,
        vhost: str = "/",
        **properties: Any,
    ) -> bool:
        """As `Broker.publish`."""
        from leveret import BrokerError

        self._refuse_other(vhost)
        if "json" in properties:
            body = json.dumps(properties.pop("json"))
            properties.setdefault("content_type", "application/json")
        octets = body.encode() if isinstance(body, str) else bytes(body)
        message = {
            "properties": properties,
            "routing_key": routing_key,
            "payload": b64encode(octets).decode(),
            "payload_encoding": "base64",
        }
        path = ("exchanges", self._vhost, exchange or "amq.default", "publish")
        is_routed = bool(self._ask("POST", *path, body=message)["routed"])
        if mandatory and not is_routed:
            raise BrokerError(f"NO_ROUTE - exchange {exchange!r} has no queue for {routing_key!r}")
        return is_routed

    def declare_queue(self, name: str, *, arguments: Mapping[str, Any] | None = None, **flags: Any) -> RealQueue:
        """As `Broker.declare_queue`, with a name."""
        self._refuse_other(flags.pop("vhost", "/"))
        wanted = {"durable": True, **flags, "arguments": dict(arguments or {})}
        self._ask("PUT", "queues", self._vhost, name, body=wanted)
        return self.queue(name)

    def declare_exchange(
        self, name: str, type: str = "direct", *, arguments: Mapping[str, Any] | None = None, **flags: Any
    ) -> None:
        """As `Broker.declare_exchange`."""
        self._refuse_other(flags.pop("vhost", "/"))
        wanted = {"type": type, "durable": True, **flags, "arguments": dict(arguments or {})}
        self._ask("PUT", "exchanges", self._vhost, name, body=wanted)

    def bind_queue(
        self,
        queue: str,
        exchange: str,
        routing_key: str = "",
        *,
        arguments: Mapping[str, Any] | None = None,
        vhost: str = "/",
    ) -> None:
        """As `Broker.bind_queue`."""
        self._bind("q", queue, exchange, routing_key, arguments, vhost)

    def bind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        *,
        arguments: Mapping[str, Any] | None = None,
        vhost: str = "/",
    ) -> None:
        """As `Broker.bind_exchange`."""
        self._bind("e", destination, source, routing_key, arguments, vhost)

    def delete_queue(self, name: str, *, vhost: str = "/") -> None:
        """As `Broker.delete_queue`, without the count."""
        self._refuse_other(vhost)
        self._ask("DELETE", "queues", self._vhost, name, missing_is_fine=True)

    def delete_exchange(self, name: str, *, vhost: str = "/") -> None:
        """As `Broker.delete_exchange`."""
        self._refuse_other(vhost)
        self._ask("DELETE", "exchanges", self._vhost, name, missing_is_fine=True)

    def purge_queue(self, queue: str, *, vhost: str = "/") -> None:
        """As `Broker.purge_queue`, without the count."""
        self._refuse_other(vhost)
        self._ask("DELETE", "queues", self._vhost, queue, "contents")

    def queue(self, name: str, *, vhost: str = "/") -> RealQueue:
        """What can be seen of a queue. Its ready messages are peeked at, which marks them redelivered."""
        self._refuse_other(vhost)
        told = self._ask("GET", "queues", self._vhost, name)
        return RealQueue(told, tuple(map(_view, self._peek(name))))

    def assert_empty(self, queue: str, *, timeout: float = 0, vhost: str = "/") -> None:
        """Fail while messages are ready in a queue, for at most `timeout` seconds; a server reports no others."""
        __tracebackhide__ = True
        end = monotonic() + timeout
        while waiting := self.queue(queue, vhost=vhost).ready:
            if monotonic() >= end:
                raise AssertionError(f"assert_empty({queue!r}): {len(waiting)} ready: {waiting[0]!r}")

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(f"leveret.{name}", name, _names_of("leveret.broker", "Broker"))

    def __repr__(self) -> str:
        return f"<real RabbitMQ {self._server.version} at {self.host}:{self.port}, virtual host {self._vhost}>"

    def _bind(
        self, kind: str, destination: str, source: str, key: str, arguments: Mapping[str, Any] | None, vhost: str
    ) -> None:
        self._refuse_other(vhost)
        wanted = {"routing_key": key, "arguments": dict(arguments or {})}
        self._ask("POST", "bindings", self._vhost, "e", source, kind, destination, body=wanted)

    def _peek(self, queue: str) -> list[dict[str, Any]]:
        wanted = {"count": _PEEKED, "ackmode": "ack_requeue_true", "encoding": "base64"}
        told: list[dict[str, Any]] = self._ask("POST", "queues", self._vhost, queue, "get", body=wanted)
        return told

    def _refuse_other(self, vhost: str) -> None:
        if vhost != "/":
            _skip(f"virtual host {vhost!r}")

    def _ask(self, method: str, *path: str, body: object = None, missing_is_fine: bool = False) -> Any:
        from leveret import BrokerError

        try:
            return self._server.management.ask(method, *path, body=body)
        except ManagementError as error:
            if missing_is_fine and error.status == 404:
                return None
            raise BrokerError(f"{method} {'/'.join(path)}: {error}") from None


def _names_of(module: str, name: str) -> frozenset[str]:
    from importlib import import_module

    kind = getattr(import_module(module), name)
    return frozenset(dir(kind)) | {"clock"}


def _refuse(what: str, name: str, known: frozenset[str]) -> NoReturn:
    if name in known and not name.startswith("_"):
        _skip(what)
    raise AttributeError(f"{what}: there is no such name, on leveret or on a real RabbitMQ")


def _view(told: Mapping[str, Any]) -> MessageView:
    from leveret.core.model.message import Message
    from leveret.core.wire.properties import Properties
    from leveret.observe.message_view import MessageView

    # An empty list is how the API tells that there are none.
    properties = Properties.from_python(dict(told["properties"] or {}))
    body = told["payload"].encode() if told["payload_encoding"] == "string" else b64decode(told["payload"])
    key = told["routing_key"]
    return MessageView(Message(0, told["exchange"], key, properties, properties.encode(), body, (key,)))
