"""The way of a message from its exchange to its queues, through bound and alternate exchanges."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model import reply_to
from leveret.core.model.binding import Destination
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.message import Message
from leveret.core.model.ports import VirtualHostPort
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.reply_to import ReplyQueue, ReplyQueues

AnyQueue = StoredQueue | ReplyQueue


def walk(
    vhost: VirtualHostPort,
    replies: ReplyQueues,
    exchange: Exchange,
    first_destinations: Sequence[Destination],
    message: Message,
) -> list[AnyQueue]:
    """Return the queues of a message, each once; `found` is the result of the first exchange's own bindings.

    Each exchange is visited once, so a cycle of bindings ends.
    """
    queues: dict[AnyQueue, None] = {}
    visited: dict[str, None] = {exchange.name: None}
    pending = [(exchange, first_destinations)]
    for source, destinations in pending:
        if not source.name:
            queues.update(dict.fromkeys(_reply_queues(vhost, replies, message)))
        # An alternate exchange with the empty name is ignored: it does not mean the default exchange (seen on 4.3).
        if not destinations and source.alternate_exchange:
            alternate = vhost.exchanges.get(source.alternate_exchange)
            destinations = () if alternate is None else (alternate,)
        for destination in destinations:
            if isinstance(destination, StoredQueue):
                queues[destination] = None
            elif isinstance(destination, Exchange) and destination.name not in visited:
                visited[destination.name] = None
                pending.append((destination, destination.route(message)))
    return list(queues)


def _reply_queues(vhost: VirtualHostPort, replies: ReplyQueues, message: Message) -> list[ReplyQueue]:
    keys = dict.fromkeys(key for key in message.routing_keys if key.startswith(reply_to.PREFIX))
    return [queue for key in keys if (queue := replies.find(key, vhost)) is not None]
