"""Messages that come back again and again: each consumer returns them, and no limit of the queue ends it.

The model counts how often an entry came back, where it comes back. So this costs nothing until a test fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Final

from leveret.core.model.message import QueueEntry
from leveret.core.model.node import Node
from leveret.core.model.queues.queue import Queue
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.story.causes import Cause

# A message that came back this often is worth a line when a wait has failed, and so many messages are named.
_OFTEN: Final = 3
_NAMED: Final = 3
# Entries at the head of a queue that are examined. What came back is at the head, except on 3.x.
_EXAMINED: Final = 1_000


def loops(node: Node) -> list[Cause]:
    """Return a cause for each message that came back often, the most frequent first. The caller holds the lock."""
    returned = [
        (entry.acquired_count, entry, queue)
        for vhost in node.vhosts.values()
        for queue in vhost.queues.values()
        for entry in _entries(queue)
        if entry.acquired_count >= _OFTEN
    ]
    returned.sort(key=lambda row: -row[0])
    return [
        Cause(
            "loop",
            {"place": queue.name, "queue": queue.name},
            {"message": entry.message.id, "times": count},
            because=why_no_end(queue),
        )
        for count, entry, queue in returned[:_NAMED]
    ]


def why_no_end(queue: StoredQueue) -> Cause:
    """Return why the queue's delivery limit does not end a loop."""
    if not isinstance(queue, Queue) or queue.type_name != "quorum":
        return Cause("no_limit_of_type", {"type": queue.type_name})
    compat, limit = queue.node.compat, queue.delivery_limit
    if limit is None and queue.settings.delivery_limit is None:
        return Cause("no_limit_by_default", {"version": compat.version})
    if limit is None:
        return Cause("limit_off")
    return Cause(
        "limit" if compat.counts_every_return else "limit_of_rejects", {"version": compat.version}, {"limit": limit}
    )


def _entries(queue: StoredQueue) -> Iterable[QueueEntry]:
    return chain(queue.unacked.values(), islice(queue.ready, _EXAMINED)) if isinstance(queue, Queue) else ()
