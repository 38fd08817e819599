"""At-least-once dead-lettering: a dying message stays with its quorum queue until every target has taken it.

If the letter finds no queue, or a full queue refuses it, the queue tries again every three minutes (RabbitMQ's
documented interval). Meanwhile the message counts neither as ready nor as unacknowledged, but towards the limits of its
queue. A target that took the letter does not get it twice.
"""

from __future__ import annotations

from typing import Final

from leveret.core.model.dead_letters import dead_letter
from leveret.core.model.message import QueueEntry
from leveret.core.model.ports import Target
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.timers import Timer
from leveret.trace import events

RETRY_US: Final = 180 * 1_000_000


class PendingLetter:
    """One dying message on its way."""

    __slots__ = (
        "_entry",
        "_exchange_name",
        "_is_recorded",
        "_letter",
        "_pending",
        "_queue",
        "_reason",
        "_taken_by",
        "_timer",
        "size_bytes",
    )

    def __init__(
        self, queue: StoredQueue, pending: dict[int, PendingLetter], entry: QueueEntry, reason: str, exchange_name: str
    ) -> None:
        """Make the letter; it removes itself from `pending` once all targets have taken it."""
        self._queue = queue
        self._pending = pending
        self._entry = entry
        self._reason = reason
        self._exchange_name = exchange_name
        self._letter = dead_letter.letter_of(queue, entry, reason, exchange_name)
        message, are_counted = entry.message, not queue.node.compat.quorum_bytes_are_body_only
        # What it counts towards a limit in bytes.
        self.size_bytes = len(message.body) + (message.counted_properties_size if are_counted else 0)
        self._taken_by: dict[Target, None] = {}
        self._is_recorded = False
        self._timer: Timer | None = None

    def attempt(self) -> None:
        """Offer the letter to every target that has not taken it."""
        targets = self._targets()
        if not targets:
            self._try_later()
            return
        if not self._is_recorded:
            self._is_recorded = True
            where = (self._exchange_name, self._letter.routing_key)
            self._queue.tap_copy(events.DEAD_LETTERED, self._entry, self._reason, *where)
            for target in targets:
                if not self._may_enter(target):
                    self._queue.vhost.lost(self._letter, "cycle", target.name)
        for target in targets:
            is_due = target not in self._taken_by
            if not is_due or not self._may_enter(target) or target.refuses_publisher(self._queue):
                continue
            if target.enqueue(self._letter, self._entry.copy):
                self._taken_by[target] = None
        if all(target in self._taken_by or not self._may_enter(target) for target in targets):
            self._pending.pop(self._entry.copy, None)
        else:
            self._try_later()

    def give_up(self, reason: str) -> None:
        """Forget the letter, whose queue is purged or deleted; record that if no target was found yet."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_recorded:
            self._queue.tap_copy(events.PURGED, self._entry, reason)

    def _targets(self) -> list[Target]:
        exchange = self._queue.vhost.exchanges.get(self._exchange_name)
        return [] if exchange is None else list(self._queue.vhost.route_letter(exchange, self._letter))

    def _may_enter(self, target: Target) -> bool:
        return not dead_letter.closes_cycle(self._letter, target.name, self._reason)

    def _try_later(self) -> None:
        self._timer = self._queue.node.timers.add(self._queue.node.now + RETRY_US, self.attempt)
