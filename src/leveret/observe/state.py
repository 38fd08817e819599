"""The state of a broker: what is under way, who holds it, and why the broker is not idle.

A broker is idle when no work is pending, no output waits, no consumer holds a message and none could take one. All of
this is pure functions over a node; the caller holds the broker's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from leveret.observe.wording import count_text, span_text

if TYPE_CHECKING:
    from leveret.core.model.consumer import Consumer
    from leveret.core.model.node import Node
    from leveret.core.model.stored_queue import StoredQueue
    from leveret.core.protocol.channel import Channel
    from leveret.core.protocol.connection import Connection
    from leveret.core.protocol.delivery import Delivery


# Names one holder of messages of one queue: connection and channel number, consumer tag (None: basic.get), queue.
_Group = tuple[int, int, str | None, str, str]

_SHOWN: Final = 50


def why_not_idle(node: Node) -> list[str]:
    """What keeps the broker from being idle, a sentence each; empty when it is."""
    reasons = [f"{count_text(len(node.work), 'piece')} of work to do"] if node.work else []
    deadline = node.next_deadline()
    reasons += ["a deadline is due"] if deadline is not None and deadline <= node.now else []
    reasons += [_held_text(group, node) for group in _groups(holdings(node))]
    for queue in _queues(node):
        takers = [consumer.tag for consumer in queue.consumers if queue.can_deliver_to(consumer)]
        if takers:
            reasons.append(f"{len(queue.ready)} ready on {_queue_text(queue)} that {takers[0]} could take")
    reasons += [
        f"output for {client_text(connection)} waits to be sent"
        for connection in connections(node)
        if connection.is_dirty
    ]
    return reasons


def describe(node: Node) -> str:
    """The broker's state: its queues, who is connected, and who holds what since when."""
    parts = [_queue_table(node), _connection_list(node)]
    held = [_held_text(group, node) for group in _groups(all_holdings(node))]
    if held:
        parts.append("\n".join(["held:", *(f"  {line}" for line in held)]))
    return "\n".join(parts)


def _queue_table(node: Node) -> str:
    queues = list(_queues(node))
    if not queues:
        return "queues: none"
    rows = [("queue", "ready", "unacked", "consumers")]
    rows += [
        (_queue_text(queue), str(len(queue.ready)), str(len(queue.unacked)), _consumers_text(queue, node))
        for queue in queues[:_SHOWN]
    ]
    more = f"\n... and {len(queues) - _SHOWN} more queues" if len(queues) > _SHOWN else ""
    return _table(rows) + more


def _consumers_text(queue: StoredQueue, node: Node) -> str:
    shown = [_consumer_text(consumer, node) for consumer in queue.consumers[:3]]
    more = [f"{len(queue.consumers) - 3} more"] if len(queue.consumers) > 3 else []
    return ", ".join(shown + more) or "-"


def _consumer_text(consumer: Consumer, node: Node) -> str:
    waiting = "" if consumer.is_active else " (waiting)"
    return f"{consumer.tag} of {connection_name(node, consumer.connection_number)}{waiting}"


def _connection_list(node: Node) -> str:
    lines = [
        f"  {connection.number}: {client_text(connection)} from {connection.peer[0]}:{connection.peer[1]}, "
        f"{count_text(len(connection.channels), 'channel')}{_state_text(connection.is_reading_paused)}"
        for connection in connections(node)
    ]
    return "\n".join(["connections:", *lines]) if lines else "connections: none"


def _state_text(is_reading_paused: bool) -> str:
    return ", blocked by an alarm" if is_reading_paused else ""


def _groups(held: Iterable[Holding]) -> list[list[Holding]]:
    """The deliveries under way, those of one queue with one consumer together."""
    groups: dict[_Group, list[Holding]] = {}
    for holding in held:
        delivery = holding.delivery
        tag = None if delivery.consumer is None else delivery.consumer.tag
        queue = delivery.queue
        key = (holding.connection.number, holding.channel.number, tag, queue.vhost.name, queue.name)
        groups.setdefault(key, []).append(holding)
    return list(groups.values())


def _held_text(group: Sequence[Holding], node: Node) -> str:
    first = min(group, key=lambda holding: holding.delivery.delivered_at)
    delivery = first.delivery
    tag = None if delivery.consumer is None else delivery.consumer.tag
    since = span_text(node.now - delivery.delivered_at)
    holder = holder_text(tag, client_text(first.connection))
    return f"{len(group)} unacked on {_queue_text(delivery.queue)} held by {holder} since {since}"


def _queues(node: Node) -> Iterable[StoredQueue]:
    for vhost in node.vhosts.values():
        yield from vhost.queues.values()


def _queue_text(queue: StoredQueue) -> str:
    return queue.name if queue.vhost.name == "/" else f"{queue.name} in vhost {queue.vhost.name}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


class Holding(NamedTuple):
    """A delivery and where it lies."""

    connection: Connection
    channel: Channel
    delivery: Delivery


def connections(node: Node) -> list[Connection]:
    """The open connections of clients, oldest first."""
    return [peer for peer in peers(node) if peer.is_client]


def peers(node: Node) -> list[Connection]:
    """The same with the peers that the test plays itself."""
    return cast("list[Connection]", list(node.connections.values()))


def holdings(node: Node) -> Iterator[Holding]:
    """Every delivery that is under way: somebody has it and is to settle it, other than the test by its own hand."""
    return (holding for holding in all_holdings(node) if holding.connection.is_waited_for)


def all_holdings(node: Node) -> Iterator[Holding]:
    """Every delivery that nobody has settled, with what lies in the test's own hands."""
    for peer in peers(node):
        for channel in peer.channels.values():
            for delivery in unsettled(channel):
                yield Holding(peer, channel, delivery)


def unsettled(channel: Channel) -> list[Delivery]:
    """What a channel holds; with what it has settled in a transaction that is not committed."""
    held_back = [] if channel.transaction is None else channel.transaction.deliveries
    return [*held_back, *channel.unacked.values()]


def connection_name(node: Node, number: int) -> str:
    """What a client calls its connection; its number when it has gone."""
    for connection in peers(node):
        if connection.number == number:
            return client_text(connection)
    return f"connection {number}"


def client_text(connection: Connection) -> str:
    """What a client calls its connection; its number when it has no name."""
    return connection.client_name or f"connection {connection.number}"


def holder_text(consumer_tag: str | None, connection: str) -> str:
    """Who holds a message, in words."""
    return f"{consumer_tag} of {connection}" if consumer_tag is not None else f"a basic.get of {connection}"
