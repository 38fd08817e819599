"""Who holds what: the walk over connections and channels to what nobody has settled, and names for both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.protocol.channel import Channel, Delivery
    from leveret.core.protocol.connection import Connection


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


def count_text(count: int, noun: str) -> str:
    """A number of things, in words: "1 consumer", "2 consumers"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
