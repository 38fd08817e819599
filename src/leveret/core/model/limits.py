"""How long a queue may grow: who is refused, and who is dropped from the head.

What counts are ready messages and the octets of their bodies; what a waiting consumer takes at once never counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core.model import dead_letter
from leveret.core.model.message import Message

if TYPE_CHECKING:
    from leveret.core.model.queue import Queue


def would_overflow(queue: Queue, message: Message) -> bool:
    """Whether one more message would exceed a limit."""
    return _is_over(queue, queue.ready.count + 1, queue.size_of(message))


def refuse(queue: Queue, message: Message) -> None:
    """Do with a refused message what the overflow mode says: reject-publish-dlx dead-letters it as well."""
    if queue.settings.overflow == "reject-publish-dlx":
        dead_letter.send(queue, queue.new_entry(message), dead_letter.MAXLEN)


def drop_from_head(queue: Queue) -> bool:
    """Drop what stands first until the queue is within its limits; whether something had to go."""
    ready = queue.ready
    has_dropped = False
    while ready and is_over(queue):
        entry = ready.pop()
        if not dead_letter.send(queue, entry, dead_letter.MAXLEN):
            queue.tap_dropped(entry, dead_letter.MAXLEN)
        has_dropped = True
    return has_dropped


def is_over(queue: Queue) -> bool:
    """Whether what is ready exceeds a limit."""
    return _is_over(queue, queue.ready.count, 0)


def is_well_below(queue: Queue) -> bool:
    """Whether what is ready is at most 80 % of every limit, rounded down."""
    settings, ready = queue.settings, queue.ready
    pairs = ((settings.max_length, ready.count), (settings.max_length_bytes, ready.size_bytes))
    return all(limit is None or found <= limit * 8 // 10 for limit, found in pairs)


def _is_over(queue: Queue, count: int, further_bytes: int) -> bool:
    settings = queue.settings
    if settings.max_length is not None and count > settings.max_length:
        return True
    limit = settings.max_length_bytes
    return limit is not None and queue.ready.size_bytes + further_bytes > limit
