"""Idleness, and why there is none: what a broker still waits for, and its state as a table for a report.

A broker is idle when no work is pending, no output waits, no consumer holds a message and none could take one. Pure
functions over a node; whoever calls them holds the broker's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from leveret.observe.holders import (
    Holding,
    all_holdings,
    client_text,
    connection_name,
    connections,
    count_text,
    holder_text,
    holdings,
)
from leveret.observe.spans import span_text

if TYPE_CHECKING:
    from leveret.core.model.consumer import Consumer
    from leveret.core.model.node import Node
    from leveret.core.model.stored_queue import StoredQueue

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
    return f"{consumer.tag} of {connection_name(node, consumer.session_number)}{waiting}"


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
