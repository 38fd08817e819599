"""The backdoor: what a test does to a broker without a client.

The names and defaults are those of the protocol's methods, the objects those a client would have made, the refusals
those a client would have been sent; but they are raised here, at the line that asked. There are no permissions and no
connection behind it, so nothing here is exclusive. `durable` is True unless said otherwise: a queue a test makes should
not be one that RabbitMQ 4.3 denies.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import error as StructError
from typing import TYPE_CHECKING, Final, Unpack

from leveret.core.model.errors import AccessRefused
from leveret.core.protocol import publishing
from leveret.core.protocol.assembler import Content
from leveret.core.wire.errors import WireError
from leveret.core.wire.methods import BasicPublish
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table, encode_short_string
from leveret.errors import BrokerError
from leveret.observe.names import find_vhost

if TYPE_CHECKING:
    from leveret.core.model.access import Kind, Right, TopicRight
    from leveret.core.model.binding import Destination
    from leveret.core.model.message import Message
    from leveret.core.model.reply_to import ReplyQueue
    from leveret.core.model.vhost import VirtualHost
    from leveret.core.protocol.confirms import Confirms
    from leveret.core.protocol.transaction import Transaction
    from leveret.core.wire.frames import Encodable
    from leveret.engine.engine import Engine
    from leveret.observe.keywords import BasicProperties
    from leveret.observe.views import ExchangeView, QueueView

_NOTHING: Final = object()


class Backdoor:
    """Publishing and declaring without a client."""

    _engine: Engine

    def publish(
        self,
        exchange: str = "",
        routing_key: str = "",
        body: bytes | str = b"",
        *,
        json: object = _NOTHING,
        headers: Mapping[str, object] | None = None,
        mandatory: bool = False,
        vhost: str = "/",
        **properties: Unpack[BasicProperties],
    ) -> bool:
        """Publish a message and say whether any queue got it.

        A body may be text, or be given as `json=`, which sets the content type too. Further keywords are basic
        properties (`delivery_mode=2`, `expiration="1000"`, `correlation_id=...`). With `mandatory`, a message that
        reaches no queue raises BrokerError. What RabbitMQ would refuse to a client raises RefusedError, except that
        the test may do what needs a right, publish with any user_id, and publish during an alarm. TypeError or
        ValueError for a value that cannot be sent.
        """
        octets = _octets(body)
        values: dict[str, object] = {**properties}
        if json is not _NOTHING:
            if octets:
                raise TypeError("publish() takes a body or json=, not both")
            octets = _json_octets(json)
            values.setdefault("content_type", "application/json")
        if headers is not None:
            values["headers"] = headers
        properties_octets = encoded("publish()", exchange, routing_key, octets, values)
        with self._engine.acting() as node:
            publisher = OwnPublisher(find_vhost(node, vhost))
            is_routed = publisher.publish(exchange, routing_key, octets, properties_octets, is_mandatory=mandatory)
            if mandatory and not is_routed:
                raise BrokerError(
                    f"NO_ROUTE - exchange {exchange!r} has no queue for {routing_key!r} in vhost {vhost!r}"
                )
        return is_routed

    def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        arguments: Mapping[str, object] | None = None,
        vhost: str = "/",
    ) -> QueueView:
        """Declare a queue, one with a name of the broker's choice when none is given."""
        from leveret.observe.views import QueueView

        with self._engine.acting() as node:
            queue = find_vhost(node, vhost).declare_queue(
                name, durable=durable, auto_delete=auto_delete, arguments=_table(arguments)
            )
            return QueueView.of(queue, node)

    def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
        vhost: str = "/",
    ) -> ExchangeView:
        """Declare an exchange."""
        from leveret.observe.views import ExchangeView

        with self._engine.acting() as node:
            exchange = find_vhost(node, vhost).declare_exchange(
                name, type, durable=durable, auto_delete=auto_delete, internal=internal, arguments=_table(arguments)
            )
            return ExchangeView.of(exchange, vhost)

    def bind_queue(
        self,
        queue: str,
        exchange: str,
        routing_key: str = "",
        *,
        arguments: Mapping[str, object] | None = None,
        vhost: str = "/",
    ) -> None:
        """Bind a queue to an exchange."""
        with self._engine.acting() as node:
            host = find_vhost(node, vhost)
            _bind(host, exchange, host.queue(queue), routing_key, arguments)

    def bind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        *,
        arguments: Mapping[str, object] | None = None,
        vhost: str = "/",
    ) -> None:
        """Bind an exchange to another exchange."""
        with self._engine.acting() as node:
            host = find_vhost(node, vhost)
            _bind(host, source, host.exchange(destination), routing_key, arguments)

    def unbind_queue(
        self,
        queue: str,
        exchange: str,
        routing_key: str = "",
        *,
        arguments: Mapping[str, object] | None = None,
        vhost: str = "/",
    ) -> None:
        """Remove a binding of a queue; none there is fine."""
        with self._engine.acting() as node:
            host = find_vhost(node, vhost)
            host.unbind(host.exchange(exchange), host.queue(queue), routing_key, _table(arguments))

    def unbind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        *,
        arguments: Mapping[str, object] | None = None,
        vhost: str = "/",
    ) -> None:
        """Remove a binding between exchanges; none there is fine."""
        with self._engine.acting() as node:
            host = find_vhost(node, vhost)
            host.unbind(host.exchange(source), host.exchange(destination), routing_key, _table(arguments))

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False, vhost: str = "/") -> int:
        """Delete a queue and return how many ready messages went with it; a missing one is fine."""
        with self._engine.acting() as node:
            return find_vhost(node, vhost).delete_queue(name, if_unused=if_unused, if_empty=if_empty)

    def delete_exchange(self, name: str, *, if_unused: bool = False, vhost: str = "/") -> None:
        """Delete an exchange; a missing one is fine."""
        with self._engine.acting() as node:
            find_vhost(node, vhost).delete_exchange(name, if_unused=if_unused)

    def purge_queue(self, queue: str, *, vhost: str = "/") -> int:
        """Remove the ready messages of a queue and return how many there were."""
        with self._engine.acting() as node:
            return find_vhost(node, vhost).queue(queue).purge()


class OwnPublisher:
    """The test as a publisher: without a user whose rights are asked, a connection, direct replies and confirms."""

    confirms: Confirms | None = None
    transaction: Transaction | None = None
    reply_queue: ReplyQueue | None = None

    def __init__(self, vhost: VirtualHost) -> None:
        self.node = vhost.node
        self.vhost = vhost
        self.rights = _EveryRight()
        self.last_properties: tuple[bytes, Properties] | None = None

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties_octets: bytes, *, is_mandatory: bool
    ) -> bool:
        """Publish as a client does, and return whether any queue got it; raises AmqpError where RabbitMQ refuses."""
        method = BasicPublish(exchange, routing_key, is_mandatory, False)
        message = publishing.checked(self, method, Content(properties_octets, body, b""))
        published = publishing.publish(self, message, is_mandatory=is_mandatory)
        assert published is not None
        return published.is_routed

    def tap(self, kind: str, *fields: object) -> None:
        """Record what the test did: no connection, no channel."""
        tap = self.node.hooks.tap
        if tap is not None:
            tap((kind, self.node.now, self.vhost.name, None, None, *fields))

    def send_message(self, method: Encodable, message: Message) -> None:
        """Send nothing: that a message was returned is recorded, and the call says so."""

    def owe_confirm(self, sequence: int, message: Message, is_taken: bool) -> None:
        """Owe nothing: the test is not in confirm mode."""


class _EveryRight:
    """The rights of a test: all of them."""

    def require(self, right: Right, kind: Kind, name: str) -> None:
        """Permit it."""

    def require_topic(self, right: TopicRight, exchange_name: str, routing_keys: tuple[str, ...]) -> None:
        """Permit it."""

    def refuse_false_user_id(self, user_id: str) -> None:
        """Permit it: a test may stand for any user."""


def encoded(call: str, exchange: str, routing_key: str, body: bytes, properties: Mapping[str, object]) -> bytes:
    """Return properties as bytes; raises TypeError or ValueError that names `call` and what cannot be sent."""
    try:
        encode_short_string(exchange)
        encode_short_string(routing_key)
        return Properties.from_python(properties).encode()
    except (AttributeError, TypeError, ValueError, OverflowError, StructError, WireError, RecursionError):
        # Imported here because only a mistake needs it.
        from leveret.scripted.unsendable import unsendable

        raise unsendable(call, exchange, routing_key, body, properties) from None


def _bind(
    host: VirtualHost,
    source: str,
    destination: Destination,
    routing_key: str,
    arguments: Mapping[str, object] | None,
) -> None:
    if not source or destination is host.default_exchange:
        raise AccessRefused("operation not permitted on the default exchange")
    host.bind(host.exchange(source), destination, routing_key, _table(arguments))


def _table(arguments: Mapping[str, object] | None) -> Table:
    return Table.from_python(arguments) if arguments else Table.EMPTY


def _octets(body: object) -> bytes:
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError:
            raise ValueError(f"publish(): body {body!r} is not UTF-8 text; give bytes instead") from None
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise TypeError(f"publish(): body must be bytes or text, not {type(body).__name__}; for JSON use json=")


def _json_octets(value: object) -> bytes:
    from json import dumps

    return dumps(value).encode()
