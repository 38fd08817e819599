"""A run of the same tests on a real RabbitMQ: `--leveret-real amqp://...`.

Each broker of a test is a virtual host of that server, created and deleted through the management API. A `RealBroker`
offers what a real server can do. A test that uses anything else is skipped, and the reason names what it used.
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

from pytest_leveret.options import Settings, given
from pytest_leveret.rehearsals.management import Management, ManagementError, url_beside

if TYPE_CHECKING:
    from leveret.observe.views.message_view import MessageView

_FLAG: Final = "--leveret-real"
_MANAGEMENT_FLAG: Final = "--leveret-real-management"
_SERVER: Final = pytest.StashKey["Server"]()
_PEEKED: Final = 100_000
# Options that only concern leveret's own behaviour and records, and have no meaning for a real server.
_IGNORED: Final = frozenset(
    {
        *("seed", "record", "trace_dir", "trace_bodies", "trace_redact", "checks", "max_redeliveries"),
        *("permit", "plugins", "host", "port", "management", "management_port"),
    }
)


def add_options(parser: pytest.Parser) -> None:
    """Add the options that name the server."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
    group.addoption(
        _FLAG,
        dest="leveret_real",
        metavar="URL",
        default=os.environ.get("LEVERET_REAL"),
        help="run on this RabbitMQ, amqp://user:password@host:port, with a virtual host for each test",
    )
    group.addoption(
        _MANAGEMENT_FLAG,
        dest="leveret_real_management",
        metavar="URL",
        default=os.environ.get("LEVERET_REAL_MANAGEMENT"),
        help="the URL of its management API (default: the same host and user, at the AMQP port + 10000)",
    )


class Server:
    """The RabbitMQ server of a run."""

    def __init__(self, amqp_url: str, management_url: str | None) -> None:
        """Raises ManagementError if the server cannot be reached or is not a RabbitMQ."""
        self.parts = urlsplit(amqp_url)
        if self.parts.scheme not in ("amqp", "amqps") or not self.parts.hostname:
            raise ManagementError(f"{amqp_url!r} is not an AMQP URL; write it as in amqp://guest:guest@localhost:5672")
        self.management = Management(management_url or url_beside(amqp_url))
        self.user = self.parts.username or "guest"
        self.version = str(self.management.ask("GET", "overview")["rabbitmq_version"])

    def url_for(self, vhost: str) -> str:
        """Return the URL of a virtual host."""
        return urlunsplit((self.parts.scheme, self.parts.netloc, f"/{quote(vhost, safe='')}", "", ""))


def prepare(config: pytest.Config) -> None:
    """Connect to the server of the run, if any. Raises UsageError if it cannot be used. A second call does nothing."""
    if _SERVER in config.stash:
        return
    url, management_url = given(config, "leveret_real"), given(config, "leveret_real_management")
    if url is None:
        if management_url is not None:
            raise pytest.UsageError(f"{_MANAGEMENT_FLAG} has no effect without {_FLAG}; give both or neither")
        return
    try:
        config.stash[_SERVER] = Server(url, management_url)
    except ManagementError as error:
        hint = f"enable its management plugin, or give its URL with {_MANAGEMENT_FLAG}"
        raise pytest.UsageError(f"{_FLAG}: {error}; {hint}") from None


def server_of(config: pytest.Config) -> Server | None:
    """Return the server of this run; None for a run on leveret."""
    return config.stash.get(_SERVER, None)


def place(config: pytest.Config) -> str | None:
    """Return the description of the server for the header of the run; None for a run on leveret."""
    server = server_of(config)
    return None if server is None else f"a real RabbitMQ {server.version} at {server.parts.hostname}"


def skip_marked(item: pytest.Item) -> None:
    """Skip a test with a marker that only leveret supports."""
    if server_of(item.config) is None:
        return
    for name, feature in (("leveret_fault", "faults"), ("leveret_explore", "exploration")):
        if item.get_closest_marker(name) is not None:
            _skip(feature)


@contextmanager
def virtual_hosts(server: Server, settings: Settings) -> Iterator[Callable[..., RealBroker]]:
    """Yield a function that creates a virtual host for each broker, and delete all of them at the end."""
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
    """Skip a test with options that this server cannot satisfy."""
    wanted = options.get("rabbitmq")
    if wanted is not None and server.version.split(".")[:2] != str(wanted).split(".")[:2]:
        pytest.skip(f"needs RabbitMQ {wanted}; the server is {server.version}")
    for word, value in options.items():
        if word not in _IGNORED and word != "rabbitmq" and value:
            _skip(f"{word}={value!r}")


def _skip(feature: str) -> NoReturn:
    pytest.skip(f"needs leveret: a real RabbitMQ does not support {feature}")


class RealQueue:
    """A view of a queue on a real server."""

    def __init__(self, answer: Mapping[str, Any], ready: tuple[MessageView, ...]) -> None:
        self.name: str = answer["name"]
        self.durable: bool = answer["durable"]
        self.auto_delete: bool = answer["auto_delete"]
        self.arguments: dict[str, object] = answer["arguments"]
        self.type: str = answer.get("type", "classic")
        # Taken and requeued, which leaves them in their positions.
        self.ready = ready

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(f"queue(...).{name}", name, _names_of("leveret.observe.views.views", "QueueView"))

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} ({self.type}) of a real RabbitMQ: {len(self.ready)} ready>"


class RealBroker:
    """The counterpart of `leveret.Broker` on a real server: one virtual host, with the same method names.

    A test that uses a method of `Broker` which a real server does not support is skipped.
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
        """The version of the server without its last part, as in `Broker.rabbitmq`."""
        return ".".join(self._server.version.split(".")[:2])

    @property
    def url(self) -> str:
        """The URL of this test's virtual host."""
        return self._server.url_for(self._vhost)

    @property
    def management_url(self) -> str:
        """The URL of the server's management API, without user and password."""
        return self._server.management.url

    def url_for(self, vhost: str = "/", **options: Any) -> str:
        """Return the URL of this test's virtual host, which stands for "/". Skip the test for any other."""
        if vhost != "/" or options:
            _skip("url_for() another virtual host or user")
        return self.url

    def stop(self) -> None:
        """Delete the virtual host with all its contents. The server closes the connections to it."""
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
        """Publish a message, as `Broker.publish` does."""
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
        """Declare a queue, as `Broker.declare_queue` does. The name is required."""
        self._refuse_other(flags.pop("vhost", "/"))
        wanted = {"durable": True, **flags, "arguments": dict(arguments or {})}
        self._ask("PUT", "queues", self._vhost, name, body=wanted)
        return self.queue(name)

    def declare_exchange(
        self, name: str, type: str = "direct", *, arguments: Mapping[str, Any] | None = None, **flags: Any
    ) -> None:
        """Declare an exchange, as `Broker.declare_exchange` does."""
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
        """Bind a queue to an exchange, as `Broker.bind_queue` does."""
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
        """Bind an exchange to another exchange, as `Broker.bind_exchange` does."""
        self._bind("e", destination, source, routing_key, arguments, vhost)

    def delete_queue(self, name: str, *, vhost: str = "/") -> None:
        """Delete a queue, as `Broker.delete_queue` does, but without returning a count."""
        self._refuse_other(vhost)
        self._ask("DELETE", "queues", self._vhost, name, missing_is_fine=True)

    def delete_exchange(self, name: str, *, vhost: str = "/") -> None:
        """Delete an exchange, as `Broker.delete_exchange` does."""
        self._refuse_other(vhost)
        self._ask("DELETE", "exchanges", self._vhost, name, missing_is_fine=True)

    def purge_queue(self, queue: str, *, vhost: str = "/") -> None:
        """Purge a queue, as `Broker.purge_queue` does, but without returning a count."""
        self._refuse_other(vhost)
        self._ask("DELETE", "queues", self._vhost, queue, "contents")

    def queue(self, name: str, *, vhost: str = "/") -> RealQueue:
        """Return a view of a queue. Reading its ready messages marks them as redelivered on the server."""
        self._refuse_other(vhost)
        answer = self._ask("GET", "queues", self._vhost, name)
        return RealQueue(answer, tuple(map(_view, self._peek(name))))

    def assert_empty(self, queue: str, *, timeout: float = 0, vhost: str = "/") -> None:
        """Fail if messages are still ready in a queue after `timeout` seconds. Unacked messages are not seen."""
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
        messages: list[dict[str, Any]] = self._ask("POST", "queues", self._vhost, queue, "get", body=wanted)
        return messages

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
    from leveret.errors import nearest_call

    hint = "".join(f"; did you mean {near!r}?" for near in nearest_call(name, known)[:1])
    raise AttributeError(f"{what} does not exist, neither on leveret nor on a real RabbitMQ{hint}")


def _view(answer: Mapping[str, Any]) -> MessageView:
    from leveret.core.model.message import Message
    from leveret.core.wire.properties import Properties
    from leveret.observe.views.message_view import MessageView

    # Without properties, the API returns an empty list instead of an object.
    properties = Properties.from_python(dict(answer["properties"] or {}))
    body = answer["payload"].encode() if answer["payload_encoding"] == "string" else b64decode(answer["payload"])
    key = answer["routing_key"]
    return MessageView(Message(0, answer["exchange"], key, properties, properties.encode(), body, (key,)))
