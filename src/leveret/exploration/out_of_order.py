"""The fault that lets a delivery be overtaken by the next one, as when it was held by a consumer that has gone.

RabbitMQ gives such a message back to its place; what was delivered meanwhile has overtaken it.
"""

from __future__ import annotations

from typing import ClassVar, Final

from leveret.core.model.queue import Queue
from leveret.faults import Fault, Occasion
from leveret.faults.conversation import deliver_late
from leveret.faults.fault import Point

# How long it waits for a message that could overtake, on the broker's clock.
_WAIT_US: Final = 20_000


class OutOfOrder(Fault):
    """A delivery comes after the next one of its consumer, flagged as redelivered; at once where none comes."""

    name = "out_of_order"
    points: ClassVar[tuple[Point, ...]] = ("deliver",)

    def __init__(self) -> None:
        self._kept: Occasion | None = None
        self._is_overtaken = False

    def can_apply(self, occasion: Occasion) -> bool:
        """Not a stream, which keeps its order."""
        return occasion.subscription is not None and isinstance(occasion.subscription.queue, Queue)

    def apply(self, occasion: Occasion) -> bool:
        """Keep it."""
        self._kept = occasion
        occasion.call_soon(self._look)
        return True

    def passed_by(self, occasion: Occasion) -> None:
        """Another delivery is on its way: if it is of the same consumer, it overtakes."""
        kept = self._kept
        if kept is not None and kept.subscription is occasion.subscription and not self._is_overtaken:
            self._is_overtaken = True
            occasion.call_soon(self._look)

    def _look(self) -> None:
        kept = self._kept
        if kept is None:
            return
        if self._is_overtaken:
            self._let_go(kept)
        elif not self._swap(kept):
            kept.call_later(_WAIT_US, self._give_up)

    def _give_up(self) -> None:
        if self._kept is not None and not self._swap(self._kept):
            self._let_go(self._kept)

    def _let_go(self, kept: Occasion) -> None:
        self._kept = None
        assert kept.entry is not None
        kept.entry.redelivered = kept.entry.redelivered or self._is_overtaken
        deliver_late(kept)

    def _swap(self, kept: Occasion) -> bool:
        """Give it back to its queue behind the next one that waits there: a consumer without room cannot be passed."""
        consumer, entry = kept.subscription, kept.entry
        assert consumer is not None
        assert entry is not None
        queue = consumer.queue
        assert isinstance(queue, Queue)
        following = next(iter(queue.ready), None)
        if following is None or consumer.no_ack or queue.is_deleted:
            return False
        self._kept = None
        following = queue.ready.pop()
        entry.position, following.position = following.position, entry.position
        queue.ready.put_back([following])
        queue.requeue([(entry, consumer)], "channel_closed", is_failure=True)
        return True
