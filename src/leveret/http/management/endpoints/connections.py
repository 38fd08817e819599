"""The endpoints about the connections of clients and their channels."""

from __future__ import annotations

from typing import Final

from leveret.admin.values import described
from leveret.core.model.errors import ConnectionForced
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.http.management import statistics
from leveret.http.management.calls import NOT_YOURS, ManagementCall, no_object, not_authorised
from leveret.http.management.clients import channel_name, described_consumer, peer_details
from leveret.http.management.constant import constant
from leveret.http.management.listing import Described
from leveret.http.management.measures import moment
from leveret.http.management.routes import endpoint, lists
from leveret.observe.texts.state import connections as clients
from leveret.observe.texts.state import unsettled

_TLS_KEYS: Final = (
    *("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity", "peer_cert_serial_number"),
    *("ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash"),
)
_CLOSED: Final = "Closed via management plugin"


def _visible(call: ManagementCall) -> list[Connection]:
    """Return the connections that the user sees on the virtual host of the path: monitors see all, others their own."""
    vhost_name = call.vhost.name if "vhost" in call.values else None
    connections = [it for it in clients(call.node) if vhost_name in (None, it.vhost_name)]
    return [it for it in connections if call.is_monitor or it.user == call.user.name]


@lists("/api/connections", "management", paged=True)
@lists("/api/vhosts/{vhost}/connections", "vhost")
def list_connections(call: ManagementCall) -> list[Described]:
    """List the connections that the user sees, or those of them to a virtual host."""
    return [_described(call, connection) for connection in _visible(call)]


@lists("/api/connections/username/{user}", "watched")
def list_of_user(call: ManagementCall) -> list[Described]:
    """List the connections of a user."""
    return [
        {"name": each.address_name, "user": each.user, "vhost": each.vhost_name, "node": NODE_NAME}
        for each in clients(call.node)
        if each.user == call.values["user"]
    ]


@endpoint("GET", "/api/connections/{connection}", "management")
def get_connection(call: ManagementCall) -> object:
    """Describe a connection. RabbitMQ ignores `columns` here, as for a channel."""
    with call.engine.looking():
        return _described(call, _connection(call), is_detailed=True)


def _connection(call: ManagementCall) -> Connection:
    for connection in clients(call.node):
        if connection.address_name == call.values["connection"]:
            _refuse_unless_visible(call, connection)
            return connection
    raise no_object()


def _refuse_unless_visible(call: ManagementCall, connection: Connection) -> None:
    if not call.is_monitor and connection.user != call.user.name:
        raise not_authorised(NOT_YOURS)


@endpoint("DELETE", "/api/connections/{connection}", "management")
def delete_connection(call: ManagementCall) -> None:
    """Close a connection, with the reason in the header X-Reason."""
    with call.acting():
        _close(call, _connection(call))


@endpoint("DELETE", "/api/connections/username/{user}", "self")
def delete_of_user(call: ManagementCall) -> None:
    """Close the connections of a user."""
    with call.acting():
        for connection in clients(call.node):
            if connection.user == call.values["user"]:
                _close(call, connection)


def _close(call: ManagementCall, connection: Connection) -> None:
    connection.refuse(0, ConnectionForced(call.request.headers.get("x-reason", _CLOSED)))


@lists("/api/channels", "management", paged=True)
@lists("/api/vhosts/{vhost}/channels", "vhost")
@lists("/api/connections/{connection}/channels", "management")
def list_channels(call: ManagementCall) -> list[Described]:
    """List the channels of all connections that the user sees, of those to a virtual host, or of one."""
    connections = [_connection(call)] if "connection" in call.values else _visible(call)
    return [_channel(call, channel) for connection in connections for channel in connection.channels.values()]


@endpoint("GET", "/api/channels/{channel}", "management")
def get_channel(call: ManagementCall) -> object:
    """Describe a channel, with its consumers."""
    with call.engine.looking():
        for connection in clients(call.node):
            for channel in connection.channels.values():
                if channel_name(channel) == call.values["channel"]:
                    _refuse_unless_visible(call, connection)
                    details = [described_consumer(call, consumer) for consumer in channel.consumers.values()]
                    return {**_channel(call, channel), "consumer_details": details, "publishes": [], "deliveries": []}
    raise no_object()


def _described(call: ManagementCall, connection: Connection, *, is_detailed: bool = False) -> Described:
    properties = described(connection.client_properties)
    description: Described = {
        **peer_details(connection),
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "vhost": connection.vhost_name,
        "protocol": "AMQP 0-9-1",
        "type": "network",
        "node": NODE_NAME,
        "host": connection.local[0],
        "port": connection.local[1],
        "state": "blocked" if connection.is_blocked else "running",
        "channels": connection.channel_count,
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "timeout": connection.heartbeat_s,
        "auth_mechanism": connection.mechanism,
        "client_properties": properties,
        "connected_at": (connection.opened_at or 0) // 1000,
        "ssl": connection.is_secure,
        # RabbitMQ writes what does not apply as null in lists, and as empty text in the description of one connection.
        **dict.fromkeys(_TLS_KEYS, "" if is_detailed else None),
        **constant("connection"),
    }
    if "connection_name" in properties:
        description["user_provided_name"] = properties["connection_name"]
    return call.visible(description)


def _channel(call: ManagementCall, channel: Channel) -> Described:
    connection, counts = channel.connection, call.state.statistics.of("channel", *channel.origin)
    transaction = channel.transaction
    description: Described = {
        "name": channel_name(channel),
        "number": channel.number,
        "connection_details": peer_details(connection),
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "vhost": connection.vhost_name,
        "node": NODE_NAME,
        "state": "running",
        "transactional": transaction is not None,
        "confirm": channel.confirms is not None,
        "prefetch_count": channel.prefetch_count,
        "consumer_count": len(channel.consumers),
        "messages_unacknowledged": len(unsettled(channel)),
        "messages_unconfirmed": 0 if channel.confirms is None else len(channel.confirms.withheld),
        "messages_uncommitted": 0 if transaction is None else len(transaction.publishes),
        "acks_uncommitted": 0 if transaction is None else len(transaction.deliveries),
        "pending_raft_commands": 0,
        "cached_segments": 0,
        "global_prefetch_count": channel.shared_prefetch_count,
        "idle_since": moment(call.node.now),
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": {},
        **statistics.message_stats(counts, call.node.now, statistics.PUBLISHING, statistics.DELIVERING),
    }
    return call.visible(description)
