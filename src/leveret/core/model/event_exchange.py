"""The event exchange: with RabbitMQ's plugin, the broker publishes its internal events to amq.rabbitmq.event.

It listens at the tap for events of the core, and gets what operators and logins change through `Node.announce`. Without
the plugin it does not exist and costs nothing. Names, headers and their types are those that RabbitMQ 4.3 was seen to
send; a process id is made from the numbers of connection and channel. Messages are enqueued later, from the work list,
because an event may concern the very queue that gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from leveret.core.model.message import PERSISTENT, Message
from leveret.core.model.node import Node
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.ports import ConnectionPort
from leveret.core.model.vhost import VirtualHost
from leveret.core.wire import erlang
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Field, Table, text_field
from leveret.trace import events
from leveret.trace.events import Event, RawEvent

NAME: Final = "amq.rabbitmq.event"
# The user named in an event that an operator caused, and in one that the broker caused itself.
OPERATOR: Final = "rmq-cli"
BROKER: Final = "rmq-internal"
_OF_TLS: Final = (
    *("peer_cert_issuer", "peer_cert_serial_number", "peer_cert_subject", "peer_cert_validity"),
    *("ssl_cipher", "ssl_hash", "ssl_key_exchange", "ssl_protocol"),
)
_WITHOUT_USER: Final = ("connection.closed", "user.authentication.success", "user.authentication.failure")

# Vhost and name; vhost, source, kind and name of the destination, routing key, arguments; connection and channel.
_Place = tuple[str, str]
_Link = tuple[str, str, str, str, str, Table]
_Channel = tuple[int, int]


class EventExchange:
    """The event exchange of one node."""

    __slots__ = ("_connections", "_consumers", "_exchanges", "_handlers", "_links", "_next", "_node", "_queues")

    def __init__(self, node: Node) -> None:
        """Declare the exchange and start to listen."""
        self._node = node
        # What exists, to distinguish a first declaration from a repeated one; queues with their type.
        self._queues: dict[_Place, str] = {}
        self._exchanges: dict[_Place, None] = {}
        self._links: dict[_Link, None] = {}
        # The connections, and the consumers by channel. Closing a connection closes its channels and their consumers.
        self._connections: dict[int, ConnectionPort] = {}
        self._consumers: dict[_Channel, dict[str, str]] = {}
        self._handlers: dict[str, Callable[[Event], None]] = {
            events.QUEUE_DECLARE: self._queue_declared,
            events.QUEUE_DELETE: self._queue_deleted,
            events.EXCHANGE_DECLARE: self._exchange_declared,
            events.EXCHANGE_DELETE: self._exchange_deleted,
            events.BIND: self._bound,
            events.UNBIND: self._unbound,
            events.CONSUME: self._consumer_created,
            events.CANCEL: self._consumer_deleted,
            events.CONN_OPEN: self._connection_created,
            events.CONN_CLOSE: self._connection_closed,
            events.CHAN_OPEN: self._channel_created,
            events.CHAN_CLOSE: lambda event: self._end_channel(_channel(event)),
        }
        node.vhosts["/"].add_system_exchange(NAME)
        for vhost in node.vhosts.values():
            self._exchanges.update({(vhost.name, name): None for name in vhost.exchanges})
        self._next = node.hooks.tap
        node.hooks.tap = self.tap

    def tap(self, raw: RawEvent) -> None:
        """Pass an event of the core on, and publish it if RabbitMQ does."""
        if self._next is not None:
            self._next(raw)
        handler = self._handlers.get(str(raw[0]))
        if handler is not None:
            handler(Event(raw))

    def emit(self, event: str, details: Mapping[str, object], user: str = OPERATOR) -> None:
        """Publish an event, which names its user unless RabbitMQ's does not."""
        host = self._node.vhosts.get("/")
        exchange = None if host is None else host.exchanges.get(NAME)
        if host is None or exchange is None:
            return
        now = self._node.now
        fields = {**details, "timestamp_in_ms": now // 1000}
        if event not in _WITHOUT_USER:
            fields["user_who_performed_action"] = user
        headers = Table(tuple((name, _field(fields[name])) for name in sorted(fields)))
        properties = Properties(headers=headers, delivery_mode=PERSISTENT, timestamp=now // 1_000_000)
        message = Message(self._node.new_message_id(), NAME, event, properties, properties.encode(), b"", (event,))

        def put() -> None:
            host.put(message, host.route(exchange, message))

        self._node.work.append(put)

    def vhost_created(self, vhost: VirtualHost) -> None:
        """Publish a new virtual host and its predeclared exchanges."""
        for exchange in vhost.exchanges.values():
            self._emit_exchange_created(vhost.name, exchange.name, OPERATOR)
        self.emit(
            "vhost.created",
            {
                "name": vhost.name,
                "description": vhost.description,
                "tags": vhost.tags,
                "default_queue_type": vhost.default_queue_type,
                "cluster_state": {NODE_NAME: "running"},
                "protected_from_deletion": False,
                "tracing": False,
            },
        )

    def vhost_deleted(self, name: str) -> None:
        """Publish the end of a virtual host and of the exchanges and bindings it still had."""
        self._forget_links(lambda link: link[0] == name)
        for key in [key for key in self._exchanges if key[0] == name]:
            del self._exchanges[key]
            self.emit("exchange.deleted", {"name": key[1], "vhost": name})
        self.emit("vhost.deleted", {"name": name})
        self.emit("vhost.down", {"name": name, "node": NODE_NAME}, BROKER)

    def _queue_declared(self, event: Event) -> None:
        key = (event.vhost, str(event.queue))
        if key in self._queues:
            return
        queue = self._node.vhosts[event.vhost].queues[key[1]]
        self._queues[key] = queue.type.erlang_name
        self.emit(
            "queue.created",
            {
                "name": queue.name,
                "vhost": event.vhost,
                "type": queue.type.erlang_name,
                "durable": queue.durable,
                "auto_delete": queue.auto_delete,
                "exclusive": queue.exclusive_owner is not None,
                "arguments": _terms(queue.arguments),
                "owner_pid": "" if queue.exclusive_owner is None else _pid(queue.exclusive_owner.number),
                "leader": NODE_NAME,
                "members": (NODE_NAME,),
            },
            self._user_of(event),
        )

    def _queue_deleted(self, event: Event) -> None:
        kind = self._queues.pop((event.vhost, str(event.queue)), "")
        self._forget_links(lambda link: link[0] == event.vhost and link[2:4] == ("queue", event.queue))
        details = {"name": event.queue, "vhost": event.vhost, "type": kind}
        self.emit("queue.deleted", details, self._user_of(event))

    def _exchange_declared(self, event: Event) -> None:
        if (event.vhost, event.exchange) not in self._exchanges:
            self._emit_exchange_created(event.vhost, event.exchange, self._user_of(event))

    def _emit_exchange_created(self, vhost: str, name: str, user: str) -> None:
        self._exchanges[vhost, name] = None
        exchange = self._node.vhosts[vhost].exchanges[name]
        self.emit(
            "exchange.created",
            {
                "name": name,
                "vhost": vhost,
                "type": exchange.type_name,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": _terms(exchange.arguments),
                "policy": "",
            },
            user,
        )

    def _exchange_deleted(self, event: Event) -> None:
        self._exchanges.pop((event.vhost, event.exchange), None)
        user, name = self._user_of(event), event.exchange
        details = {"name": name, "vhost": event.vhost}
        progress = {**details, "component": "exchange-delete-in-progress"}
        self.emit("parameter.set", {**progress, "value": True}, user)
        self._forget_links(lambda link: link[0] == event.vhost and (link[1] == name or link[2:4] == ("exchange", name)))
        self.emit("exchange.deleted", details, user)
        self.emit("parameter.cleared", progress, user)

    def _bound(self, event: Event) -> None:
        link = _link(event)
        if link not in self._links:
            self._links[link] = None
            self._emit_link("binding.created", link, self._user_of(event))

    def _unbound(self, event: Event) -> None:
        link = _link(event)
        if self._links.pop(link, link) is None:
            self._emit_link("binding.deleted", link, self._user_of(event))

    def _forget_links(self, is_gone: Callable[[_Link], bool]) -> None:
        for link in [link for link in self._links if is_gone(link)]:
            del self._links[link]
            self._emit_link("binding.deleted", link, BROKER)

    def _emit_link(self, event: str, link: _Link, user: str) -> None:
        vhost, source, kind, destination, routing_key, arguments = link
        details = {
            "vhost": vhost,
            "source_name": source,
            "source_kind": "exchange",
            "destination_name": destination,
            "destination_kind": kind,
            "routing_key": routing_key,
            "arguments": _terms(arguments),
        }
        self.emit(event, details, user)

    def _consumer_created(self, event: Event) -> None:
        if event.conn is None:
            # A consumer of the test itself has no connection to report.
            return
        self._consumers.setdefault(_channel(event), {})[event.consumer] = str(event.queue)
        details = {
            "ack_required": not event.no_ack,
            "exclusive": event.exclusive,
            "prefetch_count": event.prefetch_count,
            "arguments": _terms(_table(event)),
        }
        self._emit_consumer("consumer.created", _channel(event), event.consumer, str(event.queue), details)

    def _consumer_deleted(self, event: Event) -> None:
        if event.conn is not None:
            self._end_consumer(_channel(event), event.consumer)

    def _end_consumer(self, channel: _Channel, tag: str) -> None:
        queue = self._consumers.get(channel, {}).pop(tag, None)
        if queue is not None:
            self._emit_consumer("consumer.deleted", channel, tag, queue, {})

    def _emit_consumer(
        self, event: str, channel: _Channel, tag: str, queue: str, details: Mapping[str, object]
    ) -> None:
        connection = self._connections[channel[0]]
        identity = {"consumer_tag": tag, "queue": queue, "vhost": connection.vhost_name, "channel": _pid(*channel)}
        self.emit(event, {**identity, **details}, connection.user)

    def _connection_created(self, event: Event) -> None:
        connection = self._node.connections[_connection(event)]
        self._connections[connection.number] = connection
        details = {
            **described(connection),
            "pid": _pid(connection.number),
            "node": NODE_NAME,
            "user": connection.user,
            "vhost": event.vhost,
            "type": "network",
            "port": connection.local[1],
            "channel_max": connection.channel_max,
            "frame_max": connection.frame_max,
            "timeout": connection.heartbeat_s,
            "connected_at": event.at // 1000,
            "client_properties": _terms(connection.client_properties),
            **dict.fromkeys(_OF_TLS, ""),
            "user_provided_name": _given_name(connection),
        }
        # This event calls the connection's name "name", and has no type of connection.
        details["name"] = details.pop("connection_name")
        del details["connection_type"]
        self.emit("connection.created", details, connection.user)

    def _connection_closed(self, event: Event) -> None:
        number = _connection(event)
        connection = self._connections[number]
        for channel in [channel for channel in self._consumers if channel[0] == number]:
            self._end_channel(channel)
        del self._connections[number]
        details = {
            "name": connection.address_name,
            "pid": _pid(number),
            "node": NODE_NAME,
            "client_properties": _terms(connection.client_properties),
            "user_provided_name": _given_name(connection),
        }
        self.emit("connection.closed", details)

    def _channel_created(self, event: Event) -> None:
        number, channel = _channel(event)
        connection = self._connections[number]
        self._consumers[number, channel] = {}
        details = {
            "name": f"{connection.address_name} ({channel})",
            "number": channel,
            "pid": _pid(number, channel),
            "connection": _pid(number),
            "user": connection.user,
            "vhost": event.vhost,
        }
        self.emit("channel.created", details, connection.user)

    def _end_channel(self, channel: _Channel) -> None:
        for tag in list(self._consumers.get(channel, {})):
            self._end_consumer(channel, tag)
        if self._consumers.pop(channel, None) is not None:
            details = {"pid": _pid(*channel), "consumer_count": 0}
            self.emit("channel.closed", details, self._connections[channel[0]].user)

    def _user_of(self, event: Event) -> str:
        connection = None if event.conn is None else self._connections.get(event.conn)
        return BROKER if connection is None else connection.user


def described(connection: ConnectionPort) -> dict[str, object]:
    """Return the details of a connection that events about it and about its login have in common."""
    return {
        "connection_name": connection.address_name,
        "connection_type": "network",
        "protocol": "{0,9,1}",
        "host": _address(connection.local[0]),
        "peer_host": _address(connection.peer[0]),
        "peer_port": connection.peer[1],
        "auth_mechanism": connection.mechanism,
        "ssl": connection.is_secure,
    }


def _given_name(connection: ConnectionPort) -> str:
    field = connection.client_properties.get("connection_name")
    return field.value.decode("utf-8", "surrogateescape") if field and isinstance(field.value, bytes) else ""


def _connection(event: Event) -> int:
    assert event.conn is not None
    return event.conn


def _channel(event: Event) -> _Channel:
    assert event.chan is not None
    return _connection(event), event.chan


def _link(event: Event) -> _Link:
    kind, name = event.destination_kind, event.destination
    return event.vhost, event.exchange, kind, name, event.routing_key, _table(event)


def _table(event: Event) -> Table:
    assert isinstance(event.arguments, Table)
    return event.arguments


def _pid(connection: int, channel: int = 0) -> str:
    return f"<{NODE_NAME}.{connection}.{channel}>"


def _address(host: str) -> str:
    # An Erlang tuple of numbers. An IPv6 address stays as it is.
    return f"{{{host.replace('.', ',')}}}" if host.count(".") == 3 else host


def _terms(table: Table) -> tuple[str, ...]:
    """Return each entry of a table as Erlang prints it."""
    return tuple(erlang.term(Table((entry,)))[1:-1] for entry in table)


def _field(value: object) -> Field:
    if isinstance(value, bool):
        return Field("t", value)
    if isinstance(value, int):
        return Field("l", value)
    if isinstance(value, (list, tuple)):
        return Field("A", tuple(_field(item) for item in value))
    if isinstance(value, Mapping):
        return Field("F", Table(tuple((str(name), _field(item)) for name, item in value.items())))
    return text_field(str(value))
