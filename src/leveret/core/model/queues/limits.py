"""The length limits of a queue.

Ready messages and the bytes of their bodies count. A message that goes straight to a waiting consumer does not.
"""

from __future__ import annotations

from leveret.core.model.queues.ready import Ready
from leveret.core.model.queues.settings import QueueSettings


def would_overflow(settings: QueueSettings, ready: Ready, size_bytes: int) -> bool:
    """Return whether one more message of this size would exceed a limit."""
    return _exceeds(settings, ready.count + 1, ready.size_bytes + size_bytes)


def is_over(settings: QueueSettings, ready: Ready) -> bool:
    """Return whether the ready messages exceed a limit."""
    return _exceeds(settings, ready.count, ready.size_bytes)


def is_well_below(settings: QueueSettings, ready: Ready) -> bool:
    """Return whether there are limits, and the ready messages are at most 80 % of each, rounded down."""
    pairs = ((settings.max_length, ready.count), (settings.max_length_bytes, ready.size_bytes))
    return settings.is_limited and all(limit is None or found <= limit * 8 // 10 for limit, found in pairs)


def _exceeds(settings: QueueSettings, count: int, size_bytes: int) -> bool:
    if settings.max_length is not None and count > settings.max_length:
        return True
    limit = settings.max_length_bytes
    return limit is not None and size_bytes > limit
