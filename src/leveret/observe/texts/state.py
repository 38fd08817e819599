"""The state of a broker as text: its queues, its connections, who holds which messages, and why it is not idle.

A broker is idle if no work is pending, no output is unsent, no consumer holds a message and none could take one. These
are pure functions of a node. The caller holds the broker's lock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from leveret.core.model.node import Node
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.delivery import Delivery
from leveret.trace.events import eta_of
from leveret.wording import client_place_text, count_text, place_text, span_text

# The holder of messages of a queue: connection and channel number, consumer tag (None: basic.get), vhost and queue.
_Group = tuple[int, int, str | None, str, str]
# A delivery: the numbers of its connection and its channel, and its tag.
DeliveryKey = tuple[int, int, int]

# How many queues are described, and how many queues or consumers are only named.
_SHOWN: Final = 6
_NAMED: Final = 3
# How many unacked messages of a client are named.
_LISTED: Final = 5


def why_not_idle(node: Node) -> list[str]:
    """Return a text for each reason why the broker is not idle; empty if it is idle."""
    reasons = [f"{count_text(node.work_count, 'task')} pending"] if node.work_count else []
    deadline = node.next_deadline()
    reasons += ["a timer is due"] if deadline is not None and deadline <= node.now else []
    reasons += held_texts(node)
    for queue in _queues(node):
        takers = [consumer.tag for consumer in queue.consumers if queue.can_deliver_to(consumer)]
        if takers:
            reasons.append(f"{len(queue.ready)} ready on {_queue_text(queue)}, which {takers[0]} can take")
    reasons += [
        f"unsent output for {client_text(connection)}" for connection in connections(node) if connection.is_dirty
    ]
    return reasons


def lost_consumers(node: Node) -> list[str]:
    """Return a text for each queue with ready messages whose last consumer went with a lost connection."""
    return [
        f"{len(queue.ready)} ready on {_queue_text(queue)}, whose last consumer went with the lost connection of "
        f"{client_place_text(*queue.lost_client)} and has not come "
        "back (reconnects=False does not wait for it)"
        for queue in _queues(node)
        # A stream keeps its messages, so they do not show that one is left to read.
        if queue.lost_client is not None and queue.ready and queue.type_name != "stream"
    ]


def lost_clients(node: Node) -> list[tuple[str, int]]:
    """Return the names and connections of clients that consumed when they lost their connection, and have not since."""
    without_queue = [client for vhost in node.vhosts.values() for client in vhost.lost_consumers.values()]
    return [*without_queue, *(queue.lost_client for queue in _queues(node) if queue.lost_client)]


def full_text(queue: StoredQueue, node: Node) -> str:
    """Return that all consumers of a queue are at their prefetch: "worker (c1/ch1) is at its prefetch of 1"; or ""."""
    full = [
        consumer
        for consumer in queue.consumers
        if consumer.prefetch_count and consumer.unacked_count >= consumer.prefetch_count
    ]
    if not full or len(full) < len(queue.consumers):
        return ""
    clients = {peer.number: client_text(peer) for peer in peers(node)}
    texts = []
    for consumer in full[:_NAMED]:
        number = consumer.connection_number
        who = client_place_text(clients[number], number, consumer.channel_number)
        texts.append(f"{who} is at its prefetch of {consumer.prefetch_count}")
    return ", ".join(texts)


def held_texts(node: Node, *, but_for: Collection[DeliveryKey] = ()) -> list[str]:
    """Return a text for each client and queue of messages that are not settled, `but_for` these deliveries."""
    held = (holding for holding in holdings(node) if holding.key not in but_for)
    return [_held_text(group, node) for group in _groups(held)]


def queue_lines(node: Node, *, first: Sequence[str] = ()) -> list[str]:
    """Return a line for each queue with messages or consumers, the queues `first` before the others, and the rest."""
    queues = list(_queues(node))
    used = sorted(filter(_is_used, queues), key=lambda queue: queue.name not in first)
    empty = sorted((queue for queue in queues if not _is_used(queue)), key=lambda queue: queue.name not in first)
    held = _groups(all_holdings(node))
    lines = [
        _queue_line(queue, [group for group in held if group[0].delivery.queue is queue], node)
        for queue in used[:_SHOWN]
    ]
    if len(used) > _SHOWN:
        lines.append(f"{len(used) - _SHOWN} more: {_names(used[_SHOWN:])}")
    return lines + ([f"empty: {_names(empty)}"] if empty else [])


def _names(queues: Sequence[StoredQueue]) -> str:
    more = [f"{len(queues) - _NAMED} more"] if len(queues) > _NAMED else []
    return ", ".join([*map(_queue_text, queues[:_NAMED]), *more])


def _is_used(queue: StoredQueue) -> bool:
    return bool(queue.ready or queue.unacked or len(queue.consumers))


def _queue_line(queue: StoredQueue, held: Sequence[Sequence[Holding]], node: Node) -> str:
    holders = [f"{len(group)} unacked {_holder_text(group, node)}" for group in held]
    consumers = [
        f"{place_text(consumer.connection_number, consumer.channel_number)}{'' if consumer.is_active else ' (waiting)'}"
        for consumer in queue.consumers[:_NAMED]
    ]
    more = [f"{len(queue.consumers) - _NAMED} more"] if len(queue.consumers) > _NAMED else []
    taken = f"consumed by {', '.join(consumers + more)}" if consumers else "no consumers"
    return f"{_queue_text(queue)} {', '.join([f'{len(queue.ready)} ready', *holders, taken])}"


def _groups(held: Iterable[Holding]) -> list[list[Holding]]:
    """Return the deliveries in groups, one for each queue and holder."""
    groups: dict[_Group, list[Holding]] = {}
    for holding in held:
        delivery = holding.delivery
        tag = None if delivery.consumer is None else delivery.consumer.tag
        queue = delivery.queue
        key = (holding.connection.number, holding.channel.number, tag, queue.vhost.name, queue.name)
        groups.setdefault(key, []).append(holding)
    return list(groups.values())


def _held_text(group: Sequence[Holding], node: Node) -> str:
    held = f"{len(group)} unacked on {_queue_text(group[0].delivery.queue)} {_holder_text(group, node)}"
    numbers = sorted(holding.delivery.entry.message.id for holding in group)
    more = [f"{len(numbers) - _LISTED} more"] if len(numbers) > _LISTED else []
    return f"{held}: {', '.join([*(f'#{number}' for number in numbers[:_LISTED]), *more])}{_due_text(group, node)}"


def _due_text(group: Sequence[Holding], node: Node) -> str:
    """Return when the first of these is due, if Celery holds them until then."""
    tables = [holding.delivery.entry.message.headers for holding in group]
    etas = [eta_of(table.to_python()) for table in tables if table is not None]
    spans = [round(eta.timestamp() * 1_000_000) - node.now for eta in etas if eta is not None]
    if not spans or min(spans) <= 0:
        return ""
    return (
        f", as its task is due in {span_text(min(spans))}; the worker counts this time itself "
        "(to move it with the broker's clock: running_worker(app, broker=...))"
    )


def _holder_text(group: Sequence[Holding], node: Node) -> str:
    first = min(group, key=lambda holding: holding.delivery.delivered_at)
    delivery = first.delivery
    tag = None if delivery.consumer is None else delivery.consumer.tag
    age_us = node.now - delivery.delivered_at
    # While time stands still, the age says nothing.
    age = f" for {span_text(age_us)}" if age_us else ""
    channel = place_text(first.connection.number, first.channel.number)
    return f"held by {holder_text(tag, client_text(first.connection), channel)}{age}"


def _queues(node: Node) -> Iterable[StoredQueue]:
    for vhost in node.vhosts.values():
        yield from vhost.queues.values()


def _queue_text(queue: StoredQueue) -> str:
    return queue.name if queue.vhost.name == "/" else f"{queue.name} in vhost {queue.vhost.name}"


class Holding(NamedTuple):
    """A delivery with its connection and channel."""

    connection: Connection
    channel: Channel
    delivery: Delivery

    @property
    def key(self) -> DeliveryKey:
        """The place of the delivery in its broker."""
        return self.connection.number, self.channel.number, self.delivery.tag


def connections(node: Node) -> list[Connection]:
    """Return the open connections of clients, oldest first."""
    return [peer for peer in peers(node) if peer.is_client]


def peers(node: Node) -> list[Connection]:
    """Return the open connections, including those of peers that the test plays itself, oldest first."""
    return cast("list[Connection]", list(node.connections.values()))


def holdings(node: Node) -> Iterator[Holding]:
    """Yield every delivery that the broker waits for: not those that the test itself has to settle, or that wait."""
    return (
        holding
        for holding in all_holdings(node)
        if holding.connection.is_waited_for and not holding.delivery.is_postponed
    )


def all_holdings(node: Node) -> Iterator[Holding]:
    """Yield every unsettled delivery, including those that the test itself holds."""
    for peer in peers(node):
        for channel in peer.channels.values():
            for delivery in unsettled(channel):
                yield Holding(peer, channel, delivery)


def unsettled(channel: Channel) -> list[Delivery]:
    """Return the deliveries a channel holds, including those it has settled in an uncommitted transaction."""
    held_back = [] if channel.transaction is None else channel.transaction.deliveries
    return [*held_back, *channel.unacked.values()]


def uncommitted(node: Node) -> dict[int, str]:
    """Return the messages that open transactions hold back, by number, each with the client that has to commit."""
    return {
        publish.message.id: client_place_text(client_text(connection), connection.number, channel.number)
        for connection in connections(node)
        for channel in connection.channels.values()
        if channel.transaction is not None
        for publish in channel.transaction.publishes
    }


def connection_name(node: Node, number: int) -> str:
    """Return the client's name for a connection; its number if it is closed or has no name."""
    for connection in peers(node):
        if connection.number == number:
            return client_text(connection)
    return f"connection {number}"


def client_text(connection: Connection) -> str:
    """Return the client's name for its connection; its number if it has no name."""
    return connection.client_name or f"connection {connection.number}"


# Consumer tags that a client or the broker makes up: those of RabbitMQ, pika and aio-pika, and of kombu.
_GENERATED_TAG: Final = re.compile(r"amq\.ctag-.*|ctag\d+\.[0-9a-f]+|(None)?\d+")


def holder_text(consumer_tag: str | None, connection: str, channel: str = "") -> str:
    """Return the holder of a message as text: "worker (c2/ch1)", "tag of worker", "a basic.get of worker".

    A tag that was made up says nothing. Then the place of the channel does.
    """
    if consumer_tag is None:
        return f"a basic.get of {connection}"
    if _GENERATED_TAG.fullmatch(consumer_tag) is None:
        return f"{consumer_tag} of {connection}"
    return f"{connection} ({channel})" if channel else connection
