"""How the management API names the connections and channels of clients, and describes their consumers."""

from __future__ import annotations

from leveret.admin.values import described
from leveret.core.compat import Compat
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.ports import ConnectionPort
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.protocol.channel import Channel
from leveret.http.management.calls import ManagementCall
from leveret.http.management.listing import Described


def consumers_of(call: ManagementCall, queue: StoredQueue) -> list[Described]:
    """Return the consumers of a queue as JSON, leaving out those of the test itself."""
    return [described_consumer(call, consumer) for consumer in queue.consumers if consumer.connection_number > 0]


def channel_name(channel: Channel) -> str:
    """Return the name of a channel."""
    return f"{channel.connection.address_name} ({channel.number})"


def peer_details(connection: ConnectionPort) -> Described:
    """Return how other objects name a connection."""
    host, port = connection.peer
    return {"name": connection.address_name, "peer_host": host, "peer_port": port}


def described_consumer(call: ManagementCall, consumer: Consumer) -> Described:
    """Return a client's consumer as JSON."""
    channel = consumer.subscriber
    assert isinstance(channel, Channel)
    timeout_us = consumer.queue.settings.consumer_timeout_us
    description: Described = {
        "consumer_timeout": call.node.settings.consumer_timeout if timeout_us is None else timeout_us // 1000,
        "consumer_tag": consumer.tag,
        "queue": {"name": consumer.queue.name, "vhost": consumer.queue.vhost.name},
        "channel_details": {
            **peer_details(channel.connection),
            "name": channel_name(channel),
            "number": channel.number,
            "user": channel.connection.user,
            "connection_name": channel.connection.address_name,
            "node": NODE_NAME,
        },
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.is_exclusive,
        "prefetch_count": channel.prefetch_count if consumer.no_ack else consumer.prefetch_count,
        "active": consumer.is_active
        and (call.compat.stream_consumers_are_active or consumer.queue.type_name != "stream"),
        "activity_status": _status(consumer, call.compat),
        "arguments": described(consumer.arguments),
    }
    return call.visible(description)


def _status(consumer: Consumer, compat: Compat) -> str:
    if not consumer.queue.settings.is_single_active:
        is_named = compat.names_blocked_consumers and consumer.queue.type_name == "classic"
        return "blocked" if is_named and not consumer.has_own_room() else "up"
    return "single_active" if consumer.is_active else "waiting"
