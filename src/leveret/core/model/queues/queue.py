"""The base of classic and quorum queues: ready and unacknowledged entries, and consumers.

A message arrives through `enqueue` and leaves through `deliver_ready` or `get`. It ends with `acknowledge`, `discard`
or expiry, or returns with `requeue`. Age ends messages at the head of a queue, and whole queues that are not in use.
There is one timer for the head and one for the queue, never one per message. Invariant: while an entry is ready, no
consumer has room. A queue knows no frames and no channels: a consumer's subscriber takes deliveries and turns them into
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from leveret.core.model.dead_letters import dead_letter
from leveret.core.model.dead_letters.death import REJECTED
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queues.consumer import Consumer, ConsumerRing
from leveret.core.model.queues.ready import Ready
from leveret.core.model.queues.settings import QueueSettings
from leveret.core.model.queues.stored_queue import QueueSpec, StoredQueue
from leveret.core.model.timers import Timer
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.ports import Subscriber
    from leveret.core.model.queues.consumer_timeout import ConsumerTimeout


class Queue(StoredQueue):
    """The base of classic and quorum queues."""

    __slots__ = (
        "active_consumer",
        "consumer_timeout",
        "disuse_timer",
        "exclusive_consumer",
        "expiry_timer",
        "is_held",
        "last_ordinal",
        "ready",
        "ring",
        "unacked",
    )

    def __init__(self, spec: QueueSpec) -> None:
        super().__init__(spec)
        self.ready: Ready = self.make_ready()
        # Delivered and not settled, by copy.
        self.unacked: dict[int, QueueEntry] = {}
        self.ring = ConsumerRing()
        self.exclusive_consumer: Consumer | None = None
        self.active_consumer: Consumer | None = None
        self.last_ordinal = 0
        # True while nothing is handed out; see `hold`.
        self.is_held = False
        self.expiry_timer: Timer | None = None
        self.disuse_timer: Timer | None = None
        # None if deliveries may be held forever.
        self.consumer_timeout: ConsumerTimeout | None = None
        if self.has_consumer_timeout:
            from leveret.core.model.queues.consumer_timeout import ConsumerTimeout

            self.consumer_timeout = ConsumerTimeout(self)

    @property
    def has_consumer_timeout(self) -> bool:
        """Whether a delivery may be held only for a limited time."""
        return True

    def make_ready(self) -> Ready:
        """Return an empty order of ready entries for this queue."""
        raise NotImplementedError

    def new_entry(self, message: Message) -> QueueEntry:
        """Give a message its place at the end of this queue, without enqueueing it."""
        node = self.node
        node.last_copy = copy = node.last_copy + 1
        entry = QueueEntry(message, copy, copy, node.now)
        if message.failed_delivery_count:
            entry.delivery_count = message.failed_delivery_count
            entry.redelivered = self.hands_on_failures or node.compat.failures_survive_death == "everywhere"
        return entry

    def priority_of(self, message: Message) -> int:
        """Return the level of a message among the ready entries."""
        raise NotImplementedError

    def enqueue_by_rules(self, message: Message, src_copy: int | None) -> bool:
        """Take a message in if limits, age, priority or the queue type affect it."""
        settings = self.settings
        entry = self.new_entry(message)
        if settings.message_ttl_us is not None or message.envelope.expiration is not None:
            entry.expires_at = self._deadline_of(message, entry.enqueued_at)
        entry.priority = self.priority_of(message)
        tap = self.hooks.tap
        if tap is not None:
            where = (self.vhost.name, self.name)
            tap((events.ENQUEUED, entry.enqueued_at, *where, message, entry.copy, src_copy, entry.expires_at))
        if not self.ready:
            consumer = self.ring.next_consumer()
            if consumer is not None:
                # It goes straight to a waiting consumer: limits and a TTL of 0 do not apply (seen on 4.3).
                self.pass_straight(entry)
                self.hand_out(entry, consumer)
                return True
        if self.discards_at_once:
            self.tap_copy(events.EXPIRED, entry)
            return True
        self.ready.append(entry)
        has_new_head = settings.is_dropping and self.drop_from_head()
        if has_new_head or (entry.expires_at is not None and self.checks_age_of(entry)):
            self.expire_heads()
        return True

    def _deadline_of(self, message: Message, now: int) -> int | None:
        """Return when a message that arrives now expires, by the shorter of the queue's TTL and its own expiration."""
        ttl_us = self.settings.message_ttl_us
        expiration = message.envelope.expiration
        if expiration is not None:
            own_us = int(expiration) * 1000
            ttl_us = own_us if ttl_us is None else min(ttl_us, own_us)
        return None if ttl_us is None else now + ttl_us

    @property
    def discards_at_once(self) -> bool:
        """Whether a message that no consumer takes at once is never stored."""
        return False

    def pass_straight(self, entry: QueueEntry) -> None:
        """Prepare an entry to go straight to a consumer, past those that are ready."""
        raise NotImplementedError

    def checks_age_of(self, entry: QueueEntry) -> bool:
        """Return whether the age of an entry that has just arrived is checked."""
        raise NotImplementedError

    @property
    def drops_last_first(self) -> bool:
        """Whether the last of several messages that exceed the limits leaves first."""
        return False

    @property
    def exceeds_limits(self) -> bool:
        """Whether the ready messages exceed a limit of length."""
        return self.settings.are_exceeded_by(self.ready.count, self.ready.size_bytes)

    @property
    def is_well_below_limits(self) -> bool:
        """Whether there are limits of length, and what counts towards each is at most 80 % of it, rounded down."""
        settings = self.settings
        pairs = zip((settings.max_length, settings.max_length_bytes), self.limited_sizes(), strict=True)
        return settings.is_limited and all(limit is None or size <= limit * 8 // 10 for limit, size in pairs)

    def limited_sizes(self) -> tuple[int, int]:
        """Return the number and the bytes of the messages that count towards the limits: the ready ones."""
        return self.ready.count, self.ready.size_bytes

    def drop_from_head(self) -> bool:
        """Drop entries from the head until the queue is within its limits; return whether any were dropped."""
        dropped: list[QueueEntry] = []
        while self.ready and self.exceeds_limits:
            dropped.append(self.ready.pop())
        for entry in reversed(dropped) if self.drops_last_first else dropped:
            self.give_up(entry, dead_letter.MAXLEN)
        return bool(dropped)

    def give_up(self, entry: QueueEntry, reason: str) -> None:
        """Dead-letter an entry that left the queue, or drop it if it has nowhere to go."""
        if not dead_letter.send(self, entry, reason):
            self.tap_copy(events.DROPPED, entry, reason)

    def expire_heads(self) -> None:
        """Expire every head that is past its deadline, then set the timer for the next one.

        An entry expires only where RabbitMQ checks: at the head (see `ReadyFifo.pop_expired`). An expired entry behind
        an older one that lives longer stays and counts as ready. There is one timer for all heads, never one per
        message.
        """
        now, ready = self.node.now, self.ready
        if ready.has_deadlines:
            while expired := ready.pop_expired(now):
                for entry in expired:
                    self.tap_copy(events.EXPIRED, entry)
                    dead_letter.send(self, entry, dead_letter.EXPIRED)
        self._arm(ready.next_deadline() if ready.has_deadlines else None)

    def _arm(self, deadline: int | None) -> None:
        timer = self.expiry_timer
        if timer is not None:
            if timer.action is not None and timer.deadline == deadline:
                return
            timer.cancel()
        self.expiry_timer = None if deadline is None else self.node.timers.add(deadline, self.expire_heads)

    def watch_disuse(self) -> None:
        """Start, restart or stop the clock of x-expires; called whenever the queue is used."""
        if self.disuse_timer is not None:
            self.disuse_timer.cancel()
            self.disuse_timer = None
        expires_us = self.settings.expires_us
        if expires_us is not None and not self.consumers and not self.is_deleted:
            self.disuse_timer = self.node.timers.add(self.node.now + expires_us, partial(self.delete, "expired"))

    @property
    def delivery_limit(self) -> int | None:
        """The number of failed deliveries that a message survives, None if unlimited."""
        return None

    def deliver_ready(self) -> None:
        """Hand out ready entries while a consumer has room."""
        raise NotImplementedError

    def hold(self) -> None:
        """Hand out nothing until the current work is done: a channel is closing, and its deliveries return first."""
        if not self.is_held:
            self.is_held = True
            self.node.work.append(self._go_on)

    def _go_on(self) -> None:
        self.is_held = False
        if not self.is_deleted:
            self.tidy_returns()

    def hand_out(self, entry: QueueEntry, consumer: Consumer) -> None:
        """Deliver an entry to a consumer, which stays in the ring with or without room. Hot: once per delivery."""
        if not consumer.no_ack:
            self.unacked[entry.copy] = entry
            consumer.unacked_count += 1
            if self.consumer_timeout is not None:
                self.consumer_timeout.watch(entry, consumer.subscriber, consumer)
        consumer.subscriber.deliver(consumer, entry)

    def fetch(self, subscriber: Subscriber | None, *, no_ack: bool) -> QueueEntry | None:
        """Take the head out for basic.get, and remember its holder."""
        if not self.ready:
            return None
        entry = self.ready.pop()
        if not no_ack:
            self.unacked[entry.copy] = entry
            if self.consumer_timeout is not None and subscriber is not None:
                self.consumer_timeout.watch(entry, subscriber, None)
        return entry

    def acknowledge(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        """End a delivery: the message is done. Hot: once per acknowledged message."""
        self._let_go(entry, consumer)
        if self.ready.count:
            self.deliver_ready()

    def discard(self, entry: QueueEntry, consumer: Consumer | None, *, is_failure: bool) -> None:
        """End a delivery: the message is dead-lettered or dropped. `is_failure`: so the version says."""
        self._let_go(entry, consumer)
        if self.is_deleted:
            return
        entry.delivery_count += is_failure
        self.give_up(entry, REJECTED)
        self.deliver_ready()

    def requeue(self, returns: Sequence[tuple[QueueEntry, Consumer | None]], reason: str, *, is_failure: bool) -> None:
        """Return deliveries to their places, in the order given. `is_failure`: a basic.reject or a lost channel."""
        for entry, consumer in returns:
            self._let_go(entry, consumer)
        if self.is_deleted:
            return
        returned = []
        for entry, consumer in returns:
            entry.redelivered = True
            entry.acquired_count += 1
            entry.delivery_count += is_failure
            if self.take_back(entry, consumer, reason, is_failure=is_failure):
                returned.append(entry)
        self.ready.put_back(returned)
        if not self.is_held:
            self.tidy_returns()

    def tidy_returns(self) -> None:
        """Apply limits and deadlines to what came back, and hand out the rest."""
        raise NotImplementedError

    def take_back(self, entry: QueueEntry, consumer: Consumer | None, reason: str, *, is_failure: bool) -> bool:
        """Return whether a returned entry becomes ready at once; if not, the queue type has dealt with it."""
        raise NotImplementedError

    def _let_go(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        # Hot: once per settled delivery.
        self.unacked.pop(entry.copy, None)
        if self.consumer_timeout is not None:
            self.consumer_timeout.forget(entry.copy)
        if consumer is not None:
            consumer.unacked_count -= 1
            assert consumer.unacked_count >= 0, f"a delivery of {consumer.tag} was settled twice"
            if consumer.moves_limit:
                self.move_limit(consumer)
            elif not consumer.is_active:
                self.continue_handover(consumer)
            elif not consumer.is_in_ring and consumer.unacked_count < consumer.limit:
                if not consumer.subscriber.is_limited:
                    self.ring.add(consumer)
                elif consumer.unacked_count == consumer.limit - 1:
                    self._ring_again(consumer.subscriber)

    def move_limit(self, settled: Consumer) -> None:
        """Let the consumer with the tag of a cancelled one hold one more delivery, permanently.

        A classic queue keeps a consumer's limit by channel and tag, and each settlement raises it by one
        (rabbit_limiter, seen on 3.10, 4.0 and 4.3).
        """
        for consumer in self.consumers:
            if consumer.tag == settled.tag and consumer.subscriber is settled.subscriber and consumer.limit:
                consumer.limit += 1
                self.ring_if_room(consumer)

    def continue_handover(self, consumer: Consumer) -> None:
        """Continue a handover once an inactive consumer has settled a delivery."""

    def add_consumer(self, consumer: Consumer) -> Consumer:
        """Add a consumer. Raises AccessRefused if exclusive use forbids it."""
        self.admit_consumer(consumer)
        self.consumers.append(consumer)
        if not consumer.ordinal:
            self.last_ordinal += 1
            consumer.ordinal = self.last_ordinal
        if self.settings.is_single_active:
            self.place_single_active(consumer)
        self.watch_disuse()
        return consumer

    def admit_consumer(self, consumer: Consumer) -> None:
        """Admit a consumer, or refuse it if exclusive use forbids it."""

    def place_single_active(self, consumer: Consumer) -> None:
        """Make a new consumer the active one, or let it wait: the first one stays active."""
        consumer.is_active = self.active_consumer is None
        if consumer.is_active:
            self.active_consumer = consumer

    def start_consumer(self, consumer: Consumer) -> None:
        """Start to deliver, after consume-ok has been sent."""
        self.ring_if_room(consumer)
        self.deliver_ready()

    def resume_consumers(self, subscriber: Subscriber) -> None:
        """Go on with the consumers of a channel that a limit held up."""
        self._ring_again(subscriber)
        self.deliver_ready()

    def _ring_again(self, subscriber: Subscriber) -> None:
        """Add the consumers of a channel that have room of their own to the ring, in the order in which they left it.

        If the channel has no room for them, they leave it again (rabbit_queue_consumers, seen on 3.10 and 4.0).
        """
        consumers = [consumer for consumer in self.consumers if consumer.subscriber is subscriber]
        for consumer in sorted(consumers, key=lambda consumer: consumer.left_at):
            self.ring_if_room(consumer)

    def ring_if_room(self, consumer: Consumer) -> None:
        """Add a consumer that may have room now to the ring. The ring asks for the channel's room by itself."""
        if not consumer.is_cancelled and not consumer.is_in_ring and consumer.has_own_room():
            self.ring.add(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer; its unacknowledged deliveries stay with its channel."""
        if consumer.is_cancelled:
            return
        consumer.cancel()
        self.consumers.remove(consumer)
        self.ring.remove(consumer)
        if self.exclusive_consumer is consumer:
            self.exclusive_consumer = None
        if self.active_consumer is consumer:
            self.activate_next()
        if self.is_deleted or self.consumers:
            return
        if self.auto_delete:
            self.delete("auto_delete")
        else:
            self.watch_disuse()

    def activate_next(self) -> None:
        """Activate the consumer with the highest priority, among equals the oldest; none that is suspended."""
        candidates = [consumer for consumer in self.consumers if not consumer.late_count]
        self.active_consumer = max(candidates, key=lambda consumer: consumer.priority, default=None)
        if self.active_consumer is not None:
            self.active_consumer.is_active = True
            self.start_consumer(self.active_consumer)

    def suspend(self, consumer: Consumer, late_count: int) -> None:
        """Give nothing to a consumer that held this many deliveries too long, which return before others get more."""
        consumer.late_count += late_count
        consumer.is_active = False
        self.ring.remove(consumer)
        self.hold()
        if consumer is self.active_consumer:
            self.activate_next()

    def has_taken_back(self, entry: QueueEntry, consumer: Consumer) -> bool:
        """Return whether a delivery has returned because its consumer held it too long."""
        return self.consumer_timeout is not None and not self.consumer_timeout.is_held_by(consumer, entry.copy)

    def on_late_ack(self, consumer: Consumer) -> None:
        """Let a suspended consumer go on once it has acknowledged all that it held too long."""
        consumer.late_count -= 1
        if consumer.late_count or consumer.is_cancelled or self.is_deleted:
            return
        if not self.settings.is_single_active:
            consumer.is_active = True
            self.start_consumer(consumer)
        elif self.active_consumer is None:
            self.activate_next()

    def purge(self) -> int:
        """Drop the ready messages; return how many."""
        return self._forget_ready("purged")

    def closed(self) -> int:
        """Drop everything and cancel the consumers, because the queue is deleted.

        Return how many ready messages were lost. Called by the vhost only.
        """
        self.is_deleted = True
        count = self._forget_ready("queue_deleted")
        for timer in (self.expiry_timer, self.disuse_timer):
            if timer is not None:
                timer.cancel()
        for entry in self.unacked.values():
            self.tap_copy(events.PURGED, entry, "queue_deleted")
            if self.consumer_timeout is not None:
                self.consumer_timeout.forget(entry.copy)
        self.unacked.clear()
        for consumer in self.consumers:
            self.ring.remove(consumer)
        self.cancel_consumers()
        return count

    def apply(self, settings: QueueSettings) -> None:
        """Take on new effective settings: limits apply at once, a TTL applies to later messages."""
        self.settings = settings
        if settings.is_dropping and self.drop_from_head():
            self.expire_heads()
        self.watch_disuse()

    def on_declared(self) -> None:
        """Restart the clock of x-expires, because the queue was declared."""
        self.watch_disuse()

    def _forget_ready(self, reason: str) -> int:
        forgotten = self.ready.clear()
        for entry in forgotten:
            self.tap_copy(events.PURGED, entry, reason)
        return len(forgotten)
