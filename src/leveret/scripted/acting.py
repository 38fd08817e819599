"""The backdoor: what a test does to a broker without a client.

The names and defaults are those of the protocol's methods, the objects those a client would have made, the refusals
those a client would have been sent; but they are raised here, at the line that asked. There are no permissions and no
connection behind it, so nothing here is exclusive. `durable` is True unless said otherwise: a queue a test makes should
not be one that RabbitMQ 4.3 denies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from leveret.core.model.errors import AccessRefused, PreconditionFailed
from leveret.core.model.message import Message
from leveret.core.protocol import publishing
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table
from leveret.errors import BrokerError
from leveret.observe.names import find_vhost
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.binding import Destination
    from leveret.core.model.node import Node
    from leveret.core.model.vhost import VirtualHost
    from leveret.engine.engine import Engine
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
        **properties: object,
    ) -> bool:
        """Publish a message and say whether any queue got it.

        A body may be text, or be given as `json=`, which sets the content type too. Further keywords are basic
        properties (`delivery_mode=2`, `expiration="1000"`, `correlation_id=...`). With `mandatory`, a message that
        reaches no queue raises BrokerError; what RabbitMQ would refuse raises RefusedError.
        """
        octets = _octets(body)
        if json is not _NOTHING:
            if octets:
                raise TypeError("publish() takes a body or json=, not both")
            octets = _json_octets(json)
            properties.setdefault("content_type", "application/json")
        if headers is not None:
            properties["headers"] = headers
        with self._engine.acting() as node:
            host = find_vhost(node, vhost)
            target = host.exchange(exchange)
            if target.internal:
                raise AccessRefused(f"cannot publish to internal exchange '{exchange}' in vhost '{vhost}'")
            message = new_message(node, exchange, routing_key, octets, Properties.from_python(properties))
            _tap(node, events.PUBLISHED, vhost, message, None)
            is_routed = host.publish(target, message).is_routed
            if not is_routed and not mandatory:
                host.lost(message)
            elif not is_routed:
                _tap(node, events.RETURNED, vhost, message, "NO_ROUTE")
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
            return QueueView.of(queue)

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


def new_message(node: Node, exchange: str, routing_key: str, body: bytes, properties: Properties) -> Message:
    """A message as a publishing client's would have become."""
    limit = node.max_message_size
    if len(body) > limit:
        raise PreconditionFailed(f"message size {len(body)} is larger than configured max size {limit}")
    if properties.expiration is not None:
        publishing.refuse_invalid_expiration(properties.expiration)
    copied_keys: tuple[str, ...] = ()
    hidden_keys: tuple[str, ...] = ()
    headers = properties.headers
    if headers is not None:
        copied_keys, hidden_keys = publishing.keys_in(headers, "CC"), publishing.keys_in(headers, "BCC")
        headers = headers.without("BCC")
        headers = headers.sorted_unique() if node.compat.sorts_header_keys else headers
        properties = properties.replace(headers=headers)
    return Message(
        node.new_message_id(),
        exchange,
        routing_key,
        properties,
        properties.encode(),
        body,
        (routing_key, *copied_keys, *hidden_keys),
        hidden_keys,
    )


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
        return body.encode()
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise TypeError(f"body is bytes or text, not {type(body).__name__}; for JSON use json=")


def _json_octets(value: object) -> bytes:
    from json import dumps

    return dumps(value).encode()


def _tap(node: Node, kind: str, vhost: str, *fields: object) -> None:
    tap = node.hooks.tap
    if tap is not None:
        tap((kind, node.now, vhost, None, None, *fields))
