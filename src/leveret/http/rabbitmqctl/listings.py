"""The commands for queues, exchanges, bindings, and the connections, channels and consumers of clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from leveret.admin.definitions_export import described_exchange
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol.channel import Channel
from leveret.http.management.endpoints import bindings, connections, consumers, queues
from leveret.http.rabbitmqctl.call import Action, Call
from leveret.http.rabbitmqctl.line import DATA, UNAVAILABLE, USAGE, Stopped
from leveret.http.rabbitmqctl.printing import Row
from leveret.observe.texts.state import connections as clients

# What only classic queues have; the others print nothing there.
_OF_CLASSIC: Final = (
    *("exclusive", "message_bytes", "message_bytes_ready", "message_bytes_unacknowledged", "message_bytes_ram"),
    *("message_bytes_persistent", "messages_ram", "messages_persistent", "consumer_utilisation", "consumer_capacity"),
)


def _pid(*numbers: int | None) -> str:
    return f"<{NODE_NAME}.{'.'.join(map(str, numbers))}>"


def _of_vhost(rows: Callable[[Call, VirtualHost], Iterable[Row]]) -> Action:
    """Return what lists rows of the line's virtual host. One that does not exist has none."""

    def listed(call: Call) -> list[Row]:
        vhost = call.node.vhosts.get(call.vhost_name)
        return [] if vhost is None else list(rows(call, vhost))

    return listed


def _queue_rows(call: Call, vhost: VirtualHost) -> Iterator[Row]:
    if call.line.has("--offline"):
        return
    shown = queues.list_in_detail(call.management(vhost=vhost.name))
    for number, (row, queue) in enumerate(zip(shown, vhost.queues.values(), strict=True)):
        owner = queue.exclusive_owner
        is_classic = queue.type_name == "classic"
        yield {
            **{name: value for name, value in row.items() if is_classic or name not in _OF_CLASSIC},
            "arguments": queue.arguments,
            "pid": None if queue.type_name == "stream" else _pid(500 + number, 0, 0),
            "owner_pid": None if owner is None else _pid(owner.number, 0, 0),
            "leader": NODE_NAME,
            "members": [NODE_NAME],
            "online": None if is_classic else [NODE_NAME],
        }


def _exchange_rows(call: Call, vhost: VirtualHost) -> Iterator[Row]:
    for exchange in vhost.exchanges.values():
        policy, _ = vhost.policies.for_exchange(exchange.name)
        declared = described_exchange(vhost, exchange)
        yield {**declared, "arguments": exchange.arguments, "policy": None if policy is None else policy.name}


def _binding_rows(_: Call, vhost: VirtualHost) -> Iterator[Row]:
    for row in bindings.rows_of(vhost):
        yield {
            "source_name": row.source,
            "source_kind": "exchange",
            "destination_name": row.destination,
            "destination_kind": row.kind,
            "routing_key": row.routing_key,
            "arguments": row.arguments,
        }


def _consumer_rows(call: Call, vhost: VirtualHost) -> Iterator[Row]:
    shown = consumers.list_consumers(call.management(vhost=vhost.name))
    held = [each for queue in vhost.queues.values() for each in queue.consumers if each.connection_number > 0]
    for row, consumer in zip(shown, held, strict=True):
        channel = consumer.subscriber
        assert isinstance(channel, Channel)
        yield {
            **row,
            "queue_name": consumer.queue.name,
            "channel_pid": _pid(*channel.origin, 0),
            "arguments": consumer.arguments,
        }


def _connection_rows(call: Call) -> Iterator[Row]:
    for row, connection in zip(connections.list_connections(call.management()), clients(call.node), strict=True):
        properties = connection.client_properties
        pid = _pid(connection.number, 0, 0)
        yield {**row, "pid": pid, "protocol": "{0,9,1}", "client_properties": properties}


def _channel_rows(call: Call) -> Iterator[Row]:
    open_channels = [channel for connection in clients(call.node) for channel in connection.channels.values()]
    for row, channel in zip(connections.list_channels(call.management()), open_channels, strict=True):
        number, _ = channel.origin
        yield {**row, "pid": _pid(*channel.origin, 0), "connection": _pid(number, 0, 0)}


def _purge(call: Call) -> None:
    vhost = call.node.vhosts.get(call.vhost_name)
    if vhost is None or call.words[0] not in vhost.queues:
        raise Stopped(DATA, "Object (queue, stream, exchange, etc) was not found")
    with call.engine.acting():
        if vhost.queues[call.words[0]].type_name == "stream":
            raise Stopped(UNAVAILABLE, "Error:\nnot_supported")
        vhost.queues[call.words[0]].purge()


def _delete_queue(call: Call) -> str:
    vhost, name = call.node.vhosts.get(call.vhost_name), call.words[0]
    if vhost is None or name not in vhost.queues:
        raise Stopped(USAGE, "Error:\nNo such queue was found")
    with call.engine.acting():
        if_unused, if_empty = call.line.has("--if-unused"), call.line.has("--if-empty")
        count = vhost.delete_queue(name, if_unused=if_unused, if_empty=if_empty)
    return f"Queue was successfully deleted with {count} ready messages"


def _close_connection(call: Call) -> None:
    pid, reason = call.words
    for connection in clients(call.node):
        if pid == _pid(connection.number, 0, 0):
            call.admin.close_connection(connection.number, reason)


def _close_all(call: Call) -> str:
    vhost = None if call.line.has("--global") else call.vhost_name
    is_known = vhost is None or vhost in call.node.vhosts
    return f"Closed {call.admin.close_all_connections(call.words[0], vhost=vhost) if is_known else 0} connections"


def _close_of_user(call: Call) -> None:
    if call.words[0] in call.node.access.users:
        call.admin.close_all_user_connections(*call.words)


LISTINGS: Final[Mapping[str, Action]] = {
    "list_queues": _of_vhost(_queue_rows),
    "list_unresponsive_queues": lambda _: [],
    "list_exchanges": _of_vhost(_exchange_rows),
    "list_bindings": _of_vhost(_binding_rows),
    "list_consumers": _of_vhost(_consumer_rows),
    "list_connections": lambda call: list(_connection_rows(call)),
    "list_channels": lambda call: list(_channel_rows(call)),
    "purge_queue": _purge,
    "delete_queue": _delete_queue,
    "close_connection": _close_connection,
    "close_all_connections": _close_all,
    "close_all_user_connections": _close_of_user,
}
