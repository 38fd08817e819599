"""A transaction of one channel: what is held back until commit.

Publishes are routed when they come and enqueued at commit; acknowledgements take effect at commit, until when their
deliveries count as unacknowledged but may not be settled again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from leveret.core.model.message import Message
from leveret.core.model.routing import AnyQueue
from leveret.core.model.stored_queue import StoredQueue

if TYPE_CHECKING:
    from leveret.core.protocol.delivery import Delivery


class HeldPublish(NamedTuple):
    """A publish whose queues are known and do not have it yet."""

    message: Message
    queues: Sequence[AnyQueue]
    is_mandatory: bool

    def at_commit(self) -> HeldPublish:
        """The same, to the queues there are now: a quorum queue that was declared anew is found by its name."""
        if not self.deleted_queues:
            return self
        return self._replace(queues=[_now(queue) for queue in self.queues])

    @property
    def deleted_queues(self) -> list[StoredQueue]:
        """The queues that were there when the message was routed and are not any more."""
        return [queue for queue in self.queues if isinstance(queue, StoredQueue) and queue.is_deleted]


def _now(queue: AnyQueue) -> AnyQueue:
    if not isinstance(queue, StoredQueue) or not queue.settles_first_at_commit:
        return queue
    anew = queue.vhost.queues.get(queue.name)
    return anew if anew is not None and anew.type is queue.type else queue


class Settlement(NamedTuple):
    """Deliveries to be settled in one way; what follows in the same way is settled with them, by tag."""

    # What is done with them: neighbours that are equal are one.
    way: tuple[str, bool]
    # By method: its event, its deliveries, whether it named several.
    methods: list[tuple[str, Sequence[Delivery], bool]]

    def of(self, *, overtaking: bool) -> Settlement:
        """The part that overtakes the publishes of its transaction, or the part that does not."""
        is_ack = self.way[0] == "ack"
        methods: list[tuple[str, Sequence[Delivery], bool]] = []
        for kind, deliveries, multiple in self.methods:
            part = [it for it in deliveries if (is_ack and it.queue.acks_overtake_at_commit) is overtaking]
            if part:
                methods.append((kind, part, multiple))
        return Settlement(self.way, methods)

    @property
    def deliveries(self) -> list[Delivery]:
        """All of them, oldest first."""
        found = [delivery for _, deliveries, _ in self.methods for delivery in deliveries]
        return sorted(found, key=lambda delivery: delivery.tag)


class Transaction:
    """What one channel has done since tx.select or the last commit or rollback."""

    __slots__ = ("deliveries", "publishes", "settlements")

    def __init__(self) -> None:
        # Routed, not yet enqueued.
        self.publishes: list[HeldPublish] = []
        self.settlements: list[Settlement] = []
        # The deliveries those would settle.
        self.deliveries: list[Delivery] = []

    def hold(self, settlement: Settlement) -> None:
        """Keep for the commit what a method settles."""
        self.deliveries.extend(settlement.deliveries)
        if self.settlements and self.settlements[-1].way == settlement.way:
            self.settlements[-1].methods.extend(settlement.methods)
        else:
            self.settlements.append(settlement)

    def take_overtaking(self) -> list[Settlement]:
        """Take out what is settled before anything that was published is enqueued."""
        overtaking = [settlement.of(overtaking=True) for settlement in self.settlements]
        others = [settlement.of(overtaking=False) for settlement in self.settlements]
        self.settlements = [settlement for settlement in others if settlement.methods]
        return [settlement for settlement in overtaking if settlement.methods]
