"""The intake: the messages that a streaming query has taken from its queue and not yet acknowledged.

It lives on the driver. It acknowledges a batch when Spark asks for an offset behind it, because then the batch is in
the commit log; Spark never calls `commit` for the last batch. After a crash, or on a new connection, the broker
redelivers in order what was not acknowledged. The offsets of the checkpoint show which of these messages Spark has had:

- A batch that was committed, if all of it arrives, is acknowledged and dropped.
- A batch that was planned and not committed is replayed if all of it arrives. Otherwise (another consumer has taken
  some of it) it is replayed as empty, and its remaining messages come with a later batch. A sink that has had the batch
  skips the replay, so a replay must not hold other messages.

Part of a committed batch is not dropped: after an empty replay it is unknown whether the sink has had it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from leveret.errors import LinkLostError
from leveret.spark.amqp.deliveries import Delivery, delivery_tag, identities, is_redelivered
from leveret.spark.amqp.link import Link
from leveret.spark.amqp.offsets import Offset
from leveret.spark.amqp.options import PREFETCH_MAX, StreamReadOptions

T = TypeVar("T")

# Messages that a crash left behind are awaited longer than new ones.
_RECOVERY_S: Final = 30.0
# A killed reader keeps its messages until the broker notices that it is gone.
_FORMER_READER_S: Final = 5.0
_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch that was announced to Spark and that Spark is not known to have committed."""

    start: Offset
    end: Offset
    messages: list[Delivery]
    # The connection that its delivery tags belong to.
    link: Link | None


class Intake:
    """The messages that one query takes from one queue."""

    def __init__(self, options: StreamReadOptions) -> None:
        self._options = options
        self._link: Link | None = None
        self._is_consuming = False
        # How many messages the queue had when this connection was opened.
        self._found = 0
        # Whether the redelivered messages of the last committed batch were dealt with on this connection.
        self._is_clear = False
        self._plan: Plan | None = None
        # Identities of the last batch. If the next batch has some of them too, they cannot identify a batch.
        self._last: frozenset[bytes] = frozenset()
        # How many messages a query with the trigger availableNow still has to take; None for other triggers.
        self._left: int | None = None
        self._stopped = threading.Event()

    def set_target(self) -> None:
        """Take no more messages than the queue holds now."""
        self._left = self._persistently(lambda: self._opened().queue_counts(self._options.queue)[0])

    def next_offset(self, start: Offset, limit: int) -> Offset:
        """Settle everything up to `start`, plan a batch behind it, and return that batch's end.

        Return `start` itself if the queue has no more messages.
        """
        return self._persistently(lambda: self._next_offset(start, limit))

    def messages_between(self, start: Offset, end: Offset) -> list[Delivery]:
        """Return the messages of a batch: the planned one, or one that was planned before a crash."""
        if self._plan is None or self._plan.end != end:
            self._plan = self._persistently(lambda: self._replan(start, end))
        return self._plan.messages

    def close(self) -> None:
        """Requeue what was not acknowledged, and close the connection."""
        self._stopped.set()
        self._leave_link()

    def _persistently(self, act: Callable[[], T]) -> T:
        """Call `act`, and call it again on a new connection if the old one is lost."""
        deadline: float | None = None
        was_open = self._link is not None
        while True:
            try:
                return act()
            except LinkLostError:
                self._leave_link()
                deadline = deadline or time.monotonic() + (self._options.reconnect_s if was_open else 0.0)
                if time.monotonic() >= deadline or self._stopped.wait(_PAUSE_S):
                    raise

    def _next_offset(self, start: Offset, limit: int) -> Offset:
        plan = self._plan
        if plan is not None and plan.start == start:
            return plan.end
        self._settle(start)
        if self._left is not None:
            limit = min(limit, self._left)
        limit = min(limit, self._options.prefetch)
        queue, wait_s = self._options.queue, self._options.max_batch_wait_s
        messages = self._consuming().take(queue, limit, wait_s, owed=self._left or 0)
        if not messages:
            return start
        if self._options.ack == "auto":
            self._ack(messages)
        self._count_down(messages)
        found = identities(messages)
        unique = frozenset(found)
        end = start.after(found, distinct=len(unique) == len(found) and unique.isdisjoint(self._last))
        self._last = unique
        self._plan = Plan(start, end, messages, self._link)
        return end

    def _settle(self, start: Offset) -> None:
        """Acknowledge the batch that ends at `start`, which Spark has committed."""
        plan = self._plan
        if plan is not None and plan.end == start:
            if not plan.messages:
                # It was an empty replay, so the messages of that batch that arrive now must be read.
                self._is_clear = True
            elif plan.link is self._opened():
                if self._options.ack == "commit":
                    self._ack(plan.messages)
                self._is_clear = True
        if not self._is_clear:
            self._drop_committed(start)
            self._is_clear = True
        self._plan = None

    def _drop_committed(self, start: Offset) -> None:
        """Acknowledge the batch that ends at `start` if the broker redelivers it."""
        if not start.count or not start.distinct or self._options.ack != "commit":
            return
        link = self._consuming(start.count)
        head = link.take(self._options.queue, 1, _RECOVERY_S, owed=self._found)
        if head and is_redelivered(head[0]) and identities(head)[0].hex() == start.first:
            head += link.take(self._options.queue, start.count - 1, _RECOVERY_S, owed=self._found - 1)
            if start.is_of(identities(head)):
                self._ack(head)
                if self._plan is None:
                    self._count_down(head)
                return
        link.put_back(head)

    def _replan(self, start: Offset, end: Offset) -> Plan:
        """Plan again a batch that was planned and not committed."""
        if self._is_consuming:
            # A new connection gets the head of the queue first.
            self._leave_link()
        messages: list[Delivery] = []
        if self._options.ack == "commit":
            link = self._consuming(end.count)
            messages = link.take(self._options.queue, end.count, _RECOVERY_S, owed=self._found)
        # Everything before this batch was acknowledged before it was planned.
        self._is_clear = True
        found = identities(messages)
        if end.is_of(found):
            self._count_down(messages)
            self._last = frozenset(found)
            return Plan(start, end, messages, self._link)
        self._leave_link()
        return Plan(start, end, [], None)

    def _ack(self, messages: list[Delivery]) -> None:
        assert self._link is not None
        self._link.ack_up_to(delivery_tag(messages[-1]), self._options.queue)

    def _count_down(self, messages: list[Delivery]) -> None:
        if self._left is not None:
            self._left = max(0, self._left - len(messages))

    def _opened(self) -> Link:
        """Return the connection, and open a new one if it was lost. A new one gets no deliveries yet."""
        if self._link is not None and self._link.failure is not None:
            self._leave_link()
        if self._link is None:
            link = Link(self._options.endpoint)
            self._link = link
            self._found = self._ready_without_former_reader(link)
        return self._link

    def _ready_without_former_reader(self, link: Link) -> int:
        deadline = time.monotonic() + _FORMER_READER_S
        while True:
            ready, consumers = link.queue_counts(self._options.queue)
            if not consumers or time.monotonic() >= deadline or self._stopped.wait(_PAUSE_S):
                return ready

    def _consuming(self, room: int = 0) -> Link:
        """Return the connection with consumers on it that have room for at least `room` messages."""
        link = self._opened()
        if not self._is_consuming:
            options = self._options
            room = max(options.prefetch, room)
            while room > 0:
                # A prefetch is at most PREFETCH_MAX, so more room needs more consumers. On one channel they share the
                # order of the queue.
                link.consume(options.queue, min(room, PREFETCH_MAX), exclusive=options.exclusive)
                room -= PREFETCH_MAX
            self._is_consuming = True
        return link

    def _leave_link(self) -> None:
        link, self._link = self._link, None
        self._is_consuming = self._is_clear = False
        if link is not None:
            link.close()
