"""The actions of a test on a broker without a client: publish, declare, bind, delete, consume and respond.

Names and defaults are those of the protocol's methods. What RabbitMQ would refuse to a client raises at the test's own
line. There is no user, so permissions do not apply. There is no connection, so nothing can be exclusive. `durable`
defaults to True, because RabbitMQ 4.3 denies transient queues that are not exclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

from leveret.core.model.errors import AccessRefused
from leveret.core.wire import methods as amqp
from leveret.core.wire.values import Table
from leveret.errors import BrokerError
from leveret.observe.views.names import find_vhost
from leveret.scripted.own_publisher import OwnPublisher, encoded, octets_of

if TYPE_CHECKING:
    from leveret.core.model.binding import Destination, DestinationKind
    from leveret.core.model.vhost import VirtualHost
    from leveret.engine.engine import Engine
    from leveret.observe.assertions.keywords import BasicProperties
    from leveret.observe.views.views import ExchangeView, QueueView
    from leveret.scripted.consumer import AckMode, ScriptedConsumer
    from leveret.scripted.responder import Responder

T = TypeVar("T")
_NOTHING: Final = object()


class BrokerActions:
    """The methods of `Broker` that publish, declare and delete without a client."""

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
        """Publish a message and return whether it reached a queue.

        The body can be text, or a value for `json=`, which also sets the content type. Further keywords are basic
        properties, such as `delivery_mode=2`, `expiration="1000"` or `correlation_id="1"`. The test needs no
        permissions, can publish with any user_id, and can publish during an alarm.

        Raises BrokerError if the message is `mandatory` and reaches no queue, RefusedError if RabbitMQ would refuse
        the publish, and TypeError or ValueError if a value cannot be sent.
        """
        __tracebackhide__ = True
        octets = octets_of("publish()", body)
        values: dict[str, object] = {**properties}
        if json is not _NOTHING:
            if octets:
                raise TypeError("publish(): body and json= were both given; give one of them")
            from json import dumps

            try:
                octets = dumps(json).encode()
            except (TypeError, ValueError) as error:
                raise type(error)(f"publish(): {error}; give json= what JSON has, or a body of bytes or text") from None
            values.setdefault("content_type", "application/json")
        if headers is not None:
            values["headers"] = headers
        properties_octets = encoded("publish()", exchange, routing_key, octets, values)
        self._engine.refuse_not_running()
        is_routed = self._publish(exchange, routing_key, octets, properties_octets, vhost, is_mandatory=mandatory)
        if mandatory and not is_routed:
            raise BrokerError(f"NO_ROUTE - exchange {exchange!r} has no queue for {routing_key!r} in vhost {vhost!r}")
        return is_routed

    def _publish(
        self, exchange: str, routing_key: str, body: bytes, properties: bytes, vhost: str, *, is_mandatory: bool
    ) -> bool:
        """Publish a message, its properties encoded, and return whether it reached a queue."""
        __tracebackhide__ = True
        with self._engine.acting() as node:
            host = find_vhost(node, vhost)
            return OwnPublisher(host).publish(exchange, routing_key, body, properties, is_mandatory=is_mandatory)

    def _act(self, vhost: str, request: amqp.Method, act: Callable[[VirtualHost], T]) -> T:
        """Do in a virtual host what this request of a client asks for, and return what that gives."""
        __tracebackhide__ = True
        with self._engine.acting() as node:
            return act(find_vhost(node, vhost))

    def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        arguments: Mapping[str, object] | None = None,
        vhost: str = "/",
    ) -> QueueView:
        """Declare a queue and return its view. Without a name, the broker generates one."""
        from leveret.observe.views.views import queue_view

        table = Table.from_python(arguments or {})
        request = amqp.QueueDeclare(name, False, durable, False, auto_delete, False, table)

        def declare(host: VirtualHost) -> QueueView:
            queue = host.declare_queue(request.queue, durable=durable, auto_delete=auto_delete, arguments=table)
            return queue_view(queue, host.node)

        return self._act(vhost, request, declare)

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
        """Declare an exchange and return its view."""
        from leveret.observe.views.views import exchange_view

        table = Table.from_python(arguments or {})
        request = amqp.ExchangeDeclare(name, type, False, durable, auto_delete, internal, False, table)

        def declare(host: VirtualHost) -> ExchangeView:
            exchange = host.declare_exchange(
                name, type, durable=durable, auto_delete=auto_delete, internal=internal, arguments=table
            )
            return exchange_view(exchange, vhost)

        return self._act(vhost, request, declare)

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
        self._bind("queue", queue, exchange, routing_key, Table.from_python(arguments or {}), vhost)

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
        self._bind("exchange", destination, source, routing_key, Table.from_python(arguments or {}), vhost)

    def _bind(
        self, kind: DestinationKind, destination: str, source: str, routing_key: str, arguments: Table, vhost: str
    ) -> None:
        def bind(host: VirtualHost) -> None:
            bound = _destination(host, kind, destination)
            if not source or bound is host.default_exchange:
                refused = AccessRefused("operation not permitted on the default exchange")
                refused.add_note("the default exchange has each queue by its name: publish('', queue, body)")
                raise refused
            host.bind(host.exchange(source), bound, routing_key, arguments)

        method = amqp.QueueBind if kind == "queue" else amqp.ExchangeBind
        self._act(vhost, method(destination, source, routing_key, False, arguments), bind)

    def unbind_queue(
        self,
        queue: str,
        exchange: str,
        routing_key: str = "",
        *,
        arguments: Mapping[str, object] | None = None,
        vhost: str = "/",
    ) -> None:
        """Remove a binding of a queue. A missing binding is fine."""
        self._unbind("queue", queue, exchange, routing_key, Table.from_python(arguments or {}), vhost)

    def unbind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        *,
        arguments: Mapping[str, object] | None = None,
        vhost: str = "/",
    ) -> None:
        """Remove a binding between exchanges. A missing binding is fine."""
        self._unbind("exchange", destination, source, routing_key, Table.from_python(arguments or {}), vhost)

    def _unbind(
        self, kind: DestinationKind, destination: str, source: str, routing_key: str, arguments: Table, vhost: str
    ) -> None:
        def unbind(host: VirtualHost) -> None:
            host.unbind(host.exchange(source), _destination(host, kind, destination), routing_key, arguments)

        binding = (destination, source, routing_key)
        of_queue, of_exchange = amqp.QueueUnbind(*binding, arguments), amqp.ExchangeUnbind(*binding, False, arguments)
        self._act(vhost, of_queue if kind == "queue" else of_exchange, unbind)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False, vhost: str = "/") -> int:
        """Delete a queue and return how many ready messages it had. A missing queue is fine."""
        request = amqp.QueueDelete(name, if_unused, if_empty, False)
        return self._act(vhost, request, lambda host: host.delete_queue(name, if_unused=if_unused, if_empty=if_empty))

    def delete_exchange(self, name: str, *, if_unused: bool = False, vhost: str = "/") -> None:
        """Delete an exchange. A missing exchange is fine."""
        request = amqp.ExchangeDelete(name, if_unused, False)
        self._act(vhost, request, lambda host: host.delete_exchange(name, if_unused=if_unused))

    def purge_queue(self, queue: str, *, vhost: str = "/") -> int:
        """Remove the ready messages of a queue and return how many there were."""
        return self._act(vhost, amqp.QueuePurge(queue, False), lambda host: host.queue(queue).purge())


class Peers:
    """The methods of `Broker` that start scripted consumers and responders."""

    _engine: Engine

    def consume(
        self,
        queue: str,
        *,
        prefetch: int = 0,
        ack: AckMode = "manual",
        priority: int | None = None,
        exclusive: bool = False,
        arguments: Mapping[str, object] | None = None,
        tag: str = "",
        vhost: str = "/",
    ) -> ScriptedConsumer:
        """Consume from a queue and return the consumer, whose messages the test takes and settles.

        RabbitMQ's rules for consumers apply to it: turns, `prefetch` (0 means unlimited), priority, exclusive use,
        single active consumer. Used as a context manager, it is closed at the end. Raises RefusedError if RabbitMQ
        would refuse.
        """
        from leveret.scripted.consumer import ScriptedConsumer, Subscription

        subscription = Subscription(queue, vhost, prefetch, ack, priority, exclusive, arguments, tag)
        return ScriptedConsumer(self._engine, subscription)

    def respond(
        self,
        queue: str,
        with_: object,
        *,
        times: int | None = None,
        delay: float = 0,
        vhost: str = "/",
    ) -> Responder:
        """Answer the requests in a queue, and return the responder.

        A reply goes to the `reply_to` of its request and has its `correlation_id`. `with_` is the answer: bytes, text,
        a `Reply`, an exception (sent as an error reply), any other value (sent as JSON), or a function that takes the
        request and returns one of these. None takes the request and never replies. A list or a tuple gives one answer
        after another.

        `times` is how many requests to take. `delay` is the seconds of the broker's clock before each reply. A missing
        queue is declared as durable.
        """
        from leveret.scripted.responder import Responder, Script

        delay_us = round(delay * 1_000_000)
        return Responder(self._engine, queue, Script(with_, times), delay_us=delay_us, vhost=vhost)


def _destination(host: VirtualHost, kind: DestinationKind, name: str) -> Destination:
    return host.queue(name) if kind == "queue" else host.exchange(name)
