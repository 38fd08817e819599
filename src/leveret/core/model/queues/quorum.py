"""The quorum queue: what it does differently from a classic queue.

Requeued messages go to the front, in the order of their return and without their priority. Failed deliveries are
counted, shown and limited, and a return may be delayed. The consumer with the highest priority becomes the single
active one. On one node that node is the majority, so confirms never wait. All of this was seen on RabbitMQ 4.3 unless a
line says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from leveret.core.model.dead_letters import dead_letter
from leveret.core.model.dead_letters.at_least_once import PendingLetter
from leveret.core.model.errors import NotImplementedByBroker, ResourceLocked
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.ports import Subscriber
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.queue import Queue
from leveret.core.model.queues.ready import (
    Ready,
    ReadyInTwoClasses,
    ReadyReturnsFirst,
    ReadyReturnsThenLevels,
)
from leveret.core.model.queues.reject_publish import Publishers
from leveret.core.model.queues.settings import QueueSettings
from leveret.core.model.queues.stored_queue import QueueSpec
from leveret.core.model.timers import Timer
from leveret.core.wire.values import Field, Table
from leveret.trace import events

LEVEL_COUNT: Final = 32
DEFAULT_PRIORITY: Final = 4
# Before 4.3 there are two classes, normal and high; high begins here.
HIGH_PRIORITY: Final = 5


class QuorumQueue(Queue):
    """A queue of type quorum."""

    edits_deliveries = True
    hands_on_failures = True
    returns_by_consumer = True
    limits_automatic_consumers = True
    can_refuse_publishers = True
    # Publishes are commands of low priority (rabbit_fifo_client, seen on 4.3).
    settles_first_at_commit = True

    __slots__ = ("__weakref__", "automatic", "delayed", "pending_letters", "publishers")

    def __init__(self, spec: QueueSpec) -> None:
        super().__init__(spec)
        # Entries that wait for a delayed retry, by copy.
        self.delayed: dict[int, tuple[QueueEntry, Timer]] = {}
        # Dead letters that have not reached all their targets, by copy (at-least-once dead-lettering).
        self.pending_letters: dict[int, PendingLetter] = {}
        self.publishers = Publishers(self)
        # What consumers with a prefetch that do not acknowledge got, until it is settled for them.
        self.automatic: dict[Consumer, list[QueueEntry]] = {}

    def make_ready(self) -> Ready:
        """Return an empty order of ready entries: returned ones first, then by priority."""
        compat = self.node.compat
        are_counted = not compat.quorum_bytes_are_body_only
        if compat.quorum_priorities == "levels":
            return ReadyReturnsThenLevels(counts_properties=are_counted)
        are_two = compat.quorum_priorities == "two_classes"
        return (ReadyInTwoClasses if are_two else ReadyReturnsFirst)(counts_properties=are_counted)

    def priority_of(self, message: Message) -> int:
        """Return the level of a message among the ready entries."""
        priority = message.envelope.priority
        priorities = self.node.compat.quorum_priorities
        if priorities == "levels":
            return DEFAULT_PRIORITY if priority is None else min(priority, LEVEL_COUNT - 1)
        return int(priorities == "two_classes" and priority is not None and priority >= HIGH_PRIORITY)

    @property
    def may_refuse_publishers(self) -> bool:
        """Whether the queue has stopped publishers, or does so once it is full."""
        return self.settings.is_refusing or self.publishers.are_stopped

    def refuses_publisher(self, publisher: object) -> bool:
        """Return whether the queue has stopped this publisher."""
        return self.publishers.is_stopped(publisher)

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Take a message in, and stop the publishers if that exceeds a limit."""
        is_taken = self.enqueue_by_rules(message, src_copy)
        if self.settings.is_refusing:
            self.publishers.stop_if_full()
        return is_taken

    def pass_straight(self, entry: QueueEntry) -> None:
        """Count the entry: a quorum queue stores a message before any consumer gets it."""
        self.ready.pass_by()

    def checks_age_of(self, entry: QueueEntry) -> bool:
        """Check the age of every entry that arrives."""
        return True

    def delivered_octets(self, entry: QueueEntry, *, is_get: bool) -> bytes | None:
        """Return the message's properties with this queue's counts in the headers, None if there are no counts."""
        compat = self.node.compat
        counts: list[tuple[str, Field]] = []
        # Failures in other queues count as acquisitions until the first one here (seen on 4.3).
        acquired_count = entry.acquired_count or entry.delivery_count
        if compat.has_acquired_count and acquired_count:
            counts.append(("x-acquired-count", Field("l", acquired_count)))
        delivery_count = self.delivery_count_of(entry)
        if delivery_count or (is_get and compat.get_shows_zero_delivery_count):
            counts.append(("x-delivery-count", Field("l", delivery_count)))
        if not counts:
            return None
        names = [name for name, _ in counts]
        published = (entry.message.headers or Table.EMPTY).without(*names)
        # If the broker adds a header, it sorts all of them, in every version.
        headers = Table((*published, *counts)).sorted_unique()
        return entry.message.properties.replace(headers=headers).encode()

    def hand_out(self, entry: QueueEntry, consumer: Consumer) -> None:
        """Deliver an entry to a consumer; a consumer that is full leaves the ring until it has room."""
        super().hand_out(entry, consumer)
        if consumer.no_ack and consumer.limit:
            self._count_automatic(entry, consumer)
        if not consumer.has_room():
            self.ring.remove(consumer)

    def _count_automatic(self, entry: QueueEntry, consumer: Consumer) -> None:
        """Count a delivery that needs no acknowledgement until the present cause is done.

        Its channel settles it, which RabbitMQ does after the command that made messages ready. So one command gives
        such a consumer no more than its prefetch (seen on 3.10, 4.0 and 4.3).
        """
        consumer.unacked_count += 1
        entries = self.automatic.get(consumer)
        if entries is None:
            self.automatic[consumer] = entries = []
            self.node.work.append(partial(self._settle_automatic, consumer))
        entries.append(entry)

    def _settle_automatic(self, consumer: Consumer) -> None:
        entries = self.automatic.pop(consumer)
        if consumer.is_cancelled or self.is_deleted:
            return
        for entry in entries:
            self._let_go(entry, consumer)
        self.deliver_ready()

    def deliver_ready(self) -> None:
        """Hand out ready entries that have not expired while a consumer has room."""
        ready, ring = self.ready, self.ring
        while ready.count and not self.is_held:
            if ready.has_deadlines and ready.head_deadline() is not None:
                self.expire_heads()
                if not ready:
                    return
            consumer = ring.next_consumer()
            if consumer is None:
                return
            self.hand_out(ready.pop(), consumer)

    def get(self, subscriber: Subscriber | None = None, *, no_ack: bool) -> QueueEntry | None:
        """Take the head out for basic.get; return None if the queue is empty.

        Refuses basic.get if the queue has a single active consumer.
        """
        self._refuse_get()
        self.watch_disuse()
        self.expire_heads()
        entry = self.fetch(subscriber, no_ack=no_ack)
        if entry is None:
            return None
        if no_ack:
            self.expire_heads()
        else:
            # RabbitMQ checks the age of the next entry after the answer, so the answer counts it (seen on 4.3).
            self.node.work.append(self.expire_heads)
        return entry

    @property
    def drops_last_first(self) -> bool:
        """Whether the last of several messages that exceed the limits leaves first, as in some versions."""
        return self.node.compat.quorum_drops_last_first

    def requeue(self, returns: Sequence[tuple[QueueEntry, Consumer | None]], reason: str, *, is_failure: bool) -> None:
        """Return deliveries. Those that go to the back return one by one (rabbit_fifo, seen on 3.10 and 4.0)."""
        if not self._goes_to_the_back(reason):
            super().requeue(returns, reason, is_failure=is_failure)
            return
        for returned in returns:
            super().requeue([returned], reason, is_failure=is_failure)

    def take_back(self, entry: QueueEntry, consumer: Consumer | None, reason: str, *, is_failure: bool) -> bool:
        """Give up entries that failed too often, and hold back those to be retried later."""
        self.publishers.resume_if_low()
        limit = self.delivery_limit
        if limit is not None and self.delivery_count_of(entry) > limit:
            self.give_up(entry, dead_letter.DELIVERY_LIMIT)
            if consumer is not None and consumer.limit and self.node.compat.giving_up_raises_limit:
                consumer.limit += 1
                self.ring_if_room(consumer)
            return False
        self.tap_copy(events.REQUEUED, entry, reason)
        if self._goes_to_the_back(reason):
            # It is enqueued anew, in the normal class (rabbit_fifo, seen on 4.0).
            self.node.last_copy += 1
            entry.position, entry.priority = self.node.last_copy, 0
            self.ready.append(entry)
            return False
        delay_us = self.retry_delay_us(entry, is_failure=is_failure)
        if not delay_us:
            return True
        timer = self.node.timers.add(self.node.now + delay_us, lambda: self._retry(entry))
        self.delayed[entry.copy] = (entry, timer)
        return False

    def tidy_returns(self) -> None:
        """Hand out what came back, then apply the limits to the rest (seen on 4.3; a classic queue drops first)."""
        self.expire_heads()
        self.deliver_ready()
        if self.settings.is_dropping and self.drop_from_head():
            self.expire_heads()
        if self.settings.is_refusing:
            self.publishers.stop_if_full()

    def apply(self, settings: QueueSettings) -> None:
        """Take on new effective settings, and stop publishers or let them go on."""
        self.publishers.resume_if_low()
        was_low = self.is_well_below_limits
        super().apply(settings)
        if settings.dead_letter_exchange is None or not self._keeps_letters:
            # As rabbit_fifo_dlx, switch_from/4 (seen on 3.10, 4.0 and 4.3).
            self._forget_letters("purged")
        self.publishers.apply(was_low=was_low)

    def dead_letter_at_least_once(self, entry: QueueEntry, reason: str, exchange_name: str) -> bool:
        """Keep a dying message until its targets have taken it, if the strategy is at-least-once.

        RabbitMQ applies that strategy only together with overflow reject-publish.
        """
        if not self._keeps_letters:
            return False
        letter = self.pending_letters[entry.copy] = PendingLetter(
            self, self.pending_letters, entry, reason, exchange_name
        )
        self.node.work.append(letter.attempt)
        self.publishers.stop_if_full()
        return True

    @property
    def _keeps_letters(self) -> bool:
        settings = self.settings
        return settings.dead_letter_strategy == "at-least-once" and settings.overflow == "reject-publish"

    @property
    def delivery_limit(self) -> int | None:
        """The number of failed deliveries that a message survives, None if unlimited."""
        limit = self.settings.delivery_limit
        if limit is None:
            limit = self.node.compat.default_delivery_limit
        is_unlimited = limit is None or (limit < 0 and self.node.compat.negative_delivery_limit_is_none)
        return None if is_unlimited else limit

    def _goes_to_the_back(self, reason: str) -> bool:
        """Return whether a returned entry goes to the back, as before 4.3 without a delivery limit."""
        is_settled = reason in (events.NACKED, events.REJECTED, "recovered")
        return is_settled and self.delivery_limit is None and not self.node.compat.quorum_requeues_to_front

    def retry_delay_us(self, entry: QueueEntry, *, is_failure: bool) -> int:
        """Return how long a returned entry waits before it is ready again; 0 if it does not wait."""
        settings = self.settings
        wanted = settings.delayed_retry_type
        is_wanted = wanted == "all" or (wanted == "failed" and is_failure) or (wanted == "returned" and not is_failure)
        if not is_wanted or not self.node.compat.has_delayed_retry:
            return 0
        return min(settings.delayed_retry_min_us * max(1, entry.delivery_count), settings.delayed_retry_max_us)

    def _retry(self, entry: QueueEntry) -> None:
        del self.delayed[entry.copy]
        self.publishers.resume_if_low()
        self.ready.put_back([entry])
        self.tidy_returns()

    def add_consumer(self, consumer: Consumer) -> Consumer:
        """Add a consumer, or revive the cancelled one of this channel and tag that still holds deliveries."""
        assert self.consumer_timeout is not None
        cancelled = self.consumer_timeout.cancelled_holder(consumer.subscriber, consumer.tag)
        if cancelled is None:
            return super().add_consumer(consumer)
        cancelled.revive(consumer)
        return super().add_consumer(cancelled)

    def move_limit(self, settled: Consumer) -> None:
        """Make room for the deliveries that a revived consumer settled, at most for its prefetch.

        Hand out nothing before everything is counted that the method settles (rabbit_fifo, seen on 4.0 and 4.3).
        """
        if settled.is_cancelled:
            return
        settled.lower_limit()
        self.hold()
        if settled.is_active:
            self.ring_if_room(settled)
        else:
            self.continue_handover(settled)

    def _refuse_get(self) -> None:
        if self.settings.is_single_active:
            quoted = '<<"quorum">>' if self.node.compat.get_refusal_quotes_queue_type else "quorum"
            raise ResourceLocked(
                f"cannot obtain access to locked {self.title}. "
                f"basic.get operations are not supported by {quoted} queues with single active consumer"
            )

    def refuse_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Refuse the conditions of queue.delete, in any state of the queue."""
        for flag, is_set in (("if-unused", if_unused), ("if-empty", if_empty)):
            if is_set:
                text = f"queue.delete operations with {flag} flag set are not supported by quorum queues"
                raise NotImplementedByBroker(f"cannot delete {self.title}. {text}")

    def on_declared(self) -> None:
        """Start the clock of x-expires once: to declare the queue again is no use of it (seen on 3.10, 4.0 and 4.3)."""
        if self.disuse_timer is None:
            self.watch_disuse()

    def place_single_active(self, consumer: Consumer) -> None:
        """Make a new consumer the active one, or let it wait.

        A consumer of higher priority takes over once the active one has settled its deliveries.
        """
        active = self.active_consumer
        if active is None or not self.node.compat.has_priority_among_single_active:
            super().place_single_active(consumer)
            return
        consumer.is_active = False
        if consumer.priority > active.priority:
            # Until then no consumer gets a new delivery.
            active.is_active = False
            self.ring.remove(active)
            self.continue_handover(active)

    def continue_handover(self, consumer: Consumer) -> None:
        """Hand over to the highest priority once the outgoing consumer has settled its deliveries."""
        if consumer is self.active_consumer and not consumer.is_active and not consumer.unacked_count:
            self.activate_next()

    @property
    def declared_consumer_count(self) -> int:
        """The number of consumers in queue.declare-ok (seen on 3.10, 4.0 and 4.3).

        Every holder of a delivery counts as one. With a single active consumer, those that wait do not count.
        """
        assert self.consumer_timeout is not None
        count = self.active_consumer is not None if self.settings.is_single_active else len(self.consumers)
        return count + self.consumer_timeout.further_holder_count

    @property
    def exceeds_limits(self) -> bool:
        """Whether the ready messages and the dead ones that wait for a target exceed a limit of length."""
        return self.settings.are_exceeded_by(*self.limited_sizes())

    def limited_sizes(self) -> tuple[int, int]:
        """Return the number and the bytes of the ready messages and of the dead ones that wait for a target."""
        ready, letters = self.ready, self.pending_letters
        if not letters:
            return ready.count, ready.size_bytes
        return ready.count + len(letters), ready.size_bytes + sum(it.size_bytes for it in letters.values())

    def purge(self) -> int:
        """Drop the ready messages and those that wait, for a retry or (4.3) a target; all are counted."""
        count = super().purge() + self._forget_delayed("purged")
        return count + self._forget_letters("purged") if self.node.compat.purges_pending_letters else count

    def _forget_letters(self, reason: str) -> int:
        count = len(self.pending_letters)
        for letter in self.pending_letters.values():
            letter.give_up(reason)
        self.pending_letters.clear()
        return count

    def _forget_delayed(self, reason: str) -> int:
        count = len(self.delayed)
        for entry, timer in self.delayed.values():
            timer.cancel()
            self.tap_copy(events.PURGED, entry, reason)
        self.delayed.clear()
        return count

    def forget_transient(self) -> None:
        """Keep everything: messages in a quorum queue survive a restart with any delivery mode."""

    def closed(self) -> int:
        """Drop everything, including entries that wait for a retry, which delete-ok does not count (seen on 4.3)."""
        self._forget_delayed("queue_deleted")
        self._forget_letters("queue_deleted")
        return super().closed()
