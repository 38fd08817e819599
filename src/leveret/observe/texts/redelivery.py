"""Messages that come back again and again: each consumer returns them, and no limit of the queue ends it.

The model counts how often an entry came back, where it comes back. So this costs nothing until a test fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from leveret.core.model.queues.queue import Queue

if TYPE_CHECKING:
    from leveret.core.model.message import QueueEntry
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue

# A message that came back this often is worth a line when a wait has failed, and so many messages are named.
_OFTEN: Final = 3
_NAMED: Final = 3
# Entries at the head of a queue that are examined. What came back is at the head, except on 3.x.
_EXAMINED: Final = 1_000


def loops(node: Node) -> list[str]:
    """Return a text for each message that came back often, the most frequent first. The caller holds the lock."""
    returned = [
        (entry.acquired_count, entry, queue)
        for vhost in node.vhosts.values()
        for queue in vhost.queues.values()
        for entry in _entries(queue)
        if entry.acquired_count >= _OFTEN
    ]
    returned.sort(key=lambda row: -row[0])
    return [
        f"message #{entry.message.id} was delivered {count} times from {queue.name} and requeued each time: "
        f"{limit_text(queue)}"
        for count, entry, queue in returned[:_NAMED]
    ]


def limit_text(queue: StoredQueue) -> str:
    """Return why the queue's delivery limit does not end a loop."""
    if not isinstance(queue, Queue) or queue.type_name != "quorum":
        return f"a {queue.type_name} queue has no delivery limit"
    compat, limit = queue.node.compat, queue.delivery_limit
    if limit is None and queue.settings.delivery_limit is None:
        return f"RabbitMQ {compat.version} has no delivery limit by default, and the queue sets none"
    if limit is None:
        return "the queue has switched its delivery limit off"
    if compat.counts_every_return:
        return f"the queue has a delivery limit of {limit}"
    return (
        f"on RabbitMQ {compat.version} only basic.reject and lost channels count towards the delivery limit of "
        f"{limit}; before 4.3, basic.nack and basic.recover did too"
    )


def _entries(queue: StoredQueue) -> Iterable[QueueEntry]:
    return chain(queue.unacked.values(), islice(queue.ready, _EXAMINED)) if isinstance(queue, Queue) else ()
