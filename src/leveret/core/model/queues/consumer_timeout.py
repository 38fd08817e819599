"""The limit on how long a client may hold a delivery without settling it.

In RabbitMQ 4.3 only quorum queues have it. Deliveries held too long return to the queue. If the client can be notified,
it gets basic.cancel, but the consumer is only suspended: its channel and its queue still know it, and it gets more once
the client has acknowledged all that it held too long. Otherwise the channel is closed. Before 4.3, every queue closed
the channel. A queue has one timer for all its deliveries, set to the nearest deadline.
"""

from __future__ import annotations

from typing import NamedTuple

from leveret.core.model.message import QueueEntry
from leveret.core.model.ports import Subscriber
from leveret.core.model.queues.arguments import integer_of
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.timers import Timer


class HeldDelivery(NamedTuple):
    """One unsettled delivery: its holder and its deadline."""

    entry: QueueEntry
    subscriber: Subscriber
    # None for a message fetched by basic.get.
    consumer: Consumer | None
    deadline: int


class ConsumerTimeout:
    """The unsettled deliveries of one queue, by copy."""

    __slots__ = ("_holdings", "_queue", "_timer")

    def __init__(self, queue: StoredQueue) -> None:
        self._queue = queue
        self._holdings: dict[int, HeldDelivery] = {}
        self._timer: Timer | None = None

    def watch(self, entry: QueueEntry, subscriber: Subscriber, consumer: Consumer | None) -> None:
        """Start the clock of a delivery."""
        deadline = self._queue.node.now + self._limit_us(consumer)
        self._holdings[entry.copy] = HeldDelivery(entry, subscriber, consumer, deadline)
        if self._timer is None or deadline < self._timer.deadline:
            self._arm(deadline)

    def forget(self, copy: int) -> None:
        """Stop the clock of a delivery that was settled."""
        self._holdings.pop(copy, None)
        if not self._holdings and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def is_held_by(self, consumer: Consumer, copy: int) -> bool:
        """Return whether this consumer holds a copy, and has not done so for too long."""
        return copy in self._holdings and self._holdings[copy].consumer is consumer

    @property
    def further_holder_count(self) -> int:
        """The number of holders beside the current consumers: each basic.get and each cancelled consumer."""
        holders = [holding.consumer for holding in self._holdings.values()]
        return holders.count(None) + len({it for it in holders if it is not None and it.is_cancelled})

    def cancelled_holder(self, subscriber: Subscriber, tag: str) -> Consumer | None:
        """Return the cancelled consumer with this channel and tag that still holds a delivery, if there is one."""
        for holding in self._holdings.values():
            consumer = holding.consumer
            if consumer is None or not consumer.is_cancelled:
                continue
            if consumer.tag == tag and holding.subscriber is subscriber:
                return consumer
        return None

    def _limit_us(self, consumer: Consumer | None) -> int:
        """Return the limit that the consumer asked for, else that of the queue's settings, else the node's."""
        own_ms = None
        if consumer is not None and self._queue.node.compat.consumer_timeout_is_quorum_only:
            own_ms = integer_of(consumer.arguments, "x-consumer-timeout")
        if own_ms is not None:
            return own_ms * 1000
        limit_us = self._queue.settings.consumer_timeout_us
        return self._queue.node.settings.consumer_timeout * 1000 if limit_us is None else limit_us

    def _arm(self, deadline: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._queue.node.timers.add(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._queue.node.now
        due: dict[tuple[Subscriber, Consumer | None], list[QueueEntry]] = {}
        for holding in self._holdings.values():
            if holding.deadline <= now:
                due.setdefault((holding.subscriber, holding.consumer), []).append(holding.entry)
        for (subscriber, consumer), entries in due.items():
            for entry in entries:
                self.forget(entry.copy)
            self._take_back(subscriber, consumer, entries)
        if self._holdings:
            self._arm(min(holding.deadline for holding in self._holdings.values()))

    def _take_back(self, subscriber: Subscriber, consumer: Consumer | None, entries: list[QueueEntry]) -> None:
        subscriber.held_too_long(entries)
        if consumer is not None and subscriber.can_be_cancelled():
            subscriber.suspended(consumer)
            self._queue.suspend(consumer, len(entries))
        else:
            subscriber.end_for_timeout(self._limit_us(consumer))
        returns: list[tuple[QueueEntry, Consumer | None]] = [(entry, consumer) for entry in entries]
        self._queue.requeue(returns, "consumer_timeout", is_failure=False)
