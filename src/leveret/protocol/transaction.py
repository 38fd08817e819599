"""A transaction of one channel: what is held back until commit.

Publishes are routed when they come and enqueued at commit; acknowledgements take effect at commit, until when their
deliveries count as unacknowledged but may not be settled again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leveret.model.message import Message
from leveret.model.routing import AnyQueue
from leveret.model.stored_queue import StoredQueue

if TYPE_CHECKING:
    from leveret.protocol.channel import Delivery


@dataclass(frozen=True, slots=True)
class HeldPublish:
    """A publish whose queues are known and do not have it yet."""

    message: Message
    queues: Sequence[AnyQueue]
    is_mandatory: bool

    @property
    def deleted_queues(self) -> list[StoredQueue]:
        """The queues that were there when the message was routed and are not any more."""
        return [queue for queue in self.queues if isinstance(queue, StoredQueue) and queue.is_deleted]


@dataclass(slots=True)
class Transaction:
    """What one channel has done since tx.select or the last commit or rollback."""

    # Routed, not yet enqueued.
    publishes: list[HeldPublish] = field(default_factory=list)
    # Each settles deliveries for good.
    settlements: list[Callable[[], None]] = field(default_factory=list)
    # The deliveries those would settle.
    deliveries: list[Delivery] = field(default_factory=list)
