"""Consumers of a queue, and the order in which they take turns.

A consumer has room while it holds fewer unacknowledged deliveries than its prefetch allows. The ring holds consumers
with room. One that turns out to be full leaves the ring, so choosing the next consumer does not walk past it again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from leveret.core.wire.values import Table

if TYPE_CHECKING:
    from leveret.core.model.ports import Subscriber
    from leveret.core.model.queues.stored_queue import StoredQueue


class Consumer:
    """One subscription of a channel to a queue."""

    __slots__ = (
        "arguments",
        "channel_number",
        "connection_number",
        "edits_deliveries",
        "is_active",
        "is_cancelled",
        "is_exclusive",
        "is_in_ring",
        "late_count",
        "left_at",
        "limit",
        "moves_limit",
        "no_ack",
        "ordinal",
        "prefetch_count",
        "priority",
        "queue",
        "subscriber",
        "tag",
        "unacked_count",
    )

    def __init__(
        self,
        tag: str,
        queue: StoredQueue,
        subscriber: Subscriber,
        *,
        connection_number: int,
        channel_number: int,
        no_ack: bool = False,
        is_exclusive: bool = False,
        prefetch_count: int = 0,
        priority: int = 0,
        arguments: Table = Table.EMPTY,
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.subscriber = subscriber
        self.connection_number = connection_number
        self.channel_number = channel_number
        self.no_ack = no_ack
        self.is_exclusive = is_exclusive
        # 0 is unlimited. Prefetch does not apply to automatic acknowledgement.
        self.prefetch_count = 0 if no_ack else prefetch_count
        # How many unacknowledged deliveries it may hold; 0 is unlimited.
        self.limit = prefetch_count if queue.limits_automatic_consumers else self.prefetch_count
        # Whether a settlement of its deliveries moves a limit; see `Queue.move_limit`.
        self.moves_limit = False
        self.priority = priority
        self.arguments = arguments
        self.unacked_count = 0
        # With a single active consumer, the others are registered but inactive.
        self.is_active = True
        self.is_in_ring = False
        self.is_cancelled = False
        # Deliveries held too long that it has not acknowledged since; while there are any, it gets nothing.
        self.late_count = 0
        # Whether its queue adds headers to deliveries.
        self.edits_deliveries = queue.edits_deliveries
        # Its number among all consumers that the queue ever had.
        self.ordinal = 0
        # When it last left the ring, by the ring's count: those that a shared prefetch limit held up return in order.
        self.left_at = 0

    def cancel(self) -> None:
        """Take no more deliveries. Those that are held stay with the channel."""
        self.is_cancelled = self.moves_limit = True

    def revive(self, wanted: Consumer) -> None:
        """Consume again with the settings of `wanted`, and keep the deliveries that are still held.

        If these are more than the prefetch allows, each settlement makes room for one delivery; see `lower_limit`.
        """
        self.no_ack = wanted.no_ack
        self.is_exclusive = wanted.is_exclusive
        self.prefetch_count = wanted.prefetch_count
        self.limit = self.prefetch_count and max(self.prefetch_count, self.unacked_count)
        self.moves_limit = self.limit > self.prefetch_count
        self.priority = wanted.priority
        self.arguments = wanted.arguments
        self.is_active = True
        self.is_cancelled = False

    def lower_limit(self) -> None:
        """After a settlement, allow at most `prefetch_count` further deliveries."""
        self.limit = min(self.limit, self.unacked_count + self.prefetch_count)
        self.moves_limit = self.limit > self.prefetch_count

    def has_room(self) -> bool:
        """Return whether it may take another delivery now. Hot: once per delivery."""
        limit = self.limit
        if limit and self.unacked_count >= limit:
            return False
        subscriber = self.subscriber
        return self.is_active and (not subscriber.is_limited or subscriber.has_room_for(self))

    def has_own_room(self) -> bool:
        """Return whether it could take another delivery if its channel had no limit for all its consumers together."""
        return self.is_active and (not self.limit or self.unacked_count < self.limit)


class ConsumerRing:
    """The consumers that have room: highest priority first, taking turns within a priority."""

    __slots__ = ("_in_order", "_left_count", "_levels")

    def __init__(self) -> None:
        # The consumers of each priority, next first; and the same lists, highest priority first.
        self._levels: dict[int, deque[Consumer]] = {}
        self._in_order: tuple[deque[Consumer], ...] = ()
        # How many consumers turned out to be full.
        self._left_count = 0

    def add(self, consumer: Consumer) -> None:
        """Add a consumer with room, behind the others of its priority."""
        level = self._levels.get(consumer.priority)
        if level is None:
            self._levels[consumer.priority] = level = deque()
            self._in_order = tuple(self._levels[priority] for priority in sorted(self._levels, reverse=True))
        level.append(consumer)
        consumer.is_in_ring = True

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, if it is in the ring."""
        if consumer.is_in_ring:
            level = self._levels[consumer.priority]
            if level[-1] is consumer:
                level.pop()
            else:
                level.remove(consumer)
            consumer.is_in_ring = False

    def only(self) -> Consumer | None:
        """Return the consumer in the ring if there is exactly one, else None."""
        if len(self._in_order) == 1 and len(self._in_order[0]) == 1:
            return self._in_order[0][0]
        return None

    def next_consumer(self) -> Consumer | None:
        """Return the consumer whose turn it is, and move it behind its equals. Hot: once per delivery.

        The consumer stays in the ring. If it has no room left, it is removed when its turn comes.
        """
        for level in self._in_order:
            while level:
                consumer = level[0]
                # It may have reached its own limit or a shared limit of its channel in the meantime.
                if consumer.has_room():
                    if len(level) > 1:
                        level.rotate(-1)
                    return consumer
                level.popleft()
                consumer.is_in_ring = False
                self._left_count = consumer.left_at = self._left_count + 1
                if consumer.subscriber.is_limited and consumer.has_own_room():
                    consumer.subscriber.hold_up(consumer.queue)
        return None
