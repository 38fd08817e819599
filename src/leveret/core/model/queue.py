"""A queue: what waits, what is handed out, and who consumes.

A message arrives by `enqueue`, leaves by `deliver_ready` or `get`, and ends by `acknowledge`, `discard` or expiry;
`requeue` brings it back. The rule kept throughout: while an entry is ready, no consumer has room. It knows no frames
and no channels: a consumer's subscriber takes deliveries and turns them into bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from leveret.core.model import dead_letter, expiry, limits
from leveret.core.model.consumer import Consumer, ConsumerRing
from leveret.core.model.errors import AccessRefused
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queue_types import QueueType
from leveret.core.model.ready import Ready, ReadyByPriority, ReadyFifo
from leveret.core.model.settings import QueueSettings
from leveret.core.model.stored_queue import StoredQueue
from leveret.core.model.timers import Timer
from leveret.core.wire.values import Table
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.consumer_timeout import ConsumerTimeout
    from leveret.core.model.session import Session, Subscriber
    from leveret.core.model.vhost import VirtualHost

# So many are handed out at once where nothing is acknowledged.
_RUN: Final = 256


class Queue(StoredQueue):
    """A classic queue; a quorum queue differs in what it overrides."""

    # Its mailbox gives acknowledgements before publishes (rabbit_amqqueue_process, seen on 3.10, 4.0 and 4.3).
    acks_overtake_at_commit = True

    __slots__ = (
        "active_consumer",
        "consumer_timeout",
        "disuse_timer",
        "exclusive_consumer",
        "expiry_timer",
        "is_held",
        "is_plain",
        "last_ordinal",
        "ready",
        "ring",
        "unacked",
    )

    def __init__(
        self,
        vhost: VirtualHost,
        name: str,
        queue_type: QueueType,
        *,
        durable: bool,
        auto_delete: bool,
        exclusive_owner: Session | None,
        arguments: Table,
        settings: QueueSettings,
    ) -> None:
        super().__init__(
            vhost,
            name,
            queue_type,
            durable=durable,
            auto_delete=auto_delete,
            exclusive_owner=exclusive_owner,
            arguments=arguments,
            settings=settings,
        )
        self.ready: Ready = self.make_ready()
        # Handed out and not settled, by copy.
        self.unacked: dict[int, QueueEntry] = {}
        self.ring = ConsumerRing()
        self.exclusive_consumer: Consumer | None = None
        self.active_consumer: Consumer | None = None
        self.last_ordinal = 0
        # Nothing is handed out for the moment; see `hold`.
        self.is_held = False
        self.expiry_timer: Timer | None = None
        self.disuse_timer: Timer | None = None
        # Whether nothing but the message itself can ask for more than to be appended; see `_has_no_rules`.
        self.is_plain = self._has_no_rules
        # None where deliveries may be held for ever.
        self.consumer_timeout: ConsumerTimeout | None = None
        if queue_type.name == "quorum" or not self.node.compat.consumer_timeout_is_quorum_only:
            # Classic queues of RabbitMQ 4.3 have none.
            from leveret.core.model.consumer_timeout import ConsumerTimeout

            self.consumer_timeout = ConsumerTimeout(self)

    def new_entry(self, message: Message) -> QueueEntry:
        """Give a message its place at the end of this queue, without enqueueing it."""
        node = self.node
        node.last_copy = copy = node.last_copy + 1
        entry = QueueEntry(message, copy, copy, node.now)
        if message.failed_delivery_count:
            entry.delivery_count = message.failed_delivery_count
            entry.redelivered = self.type.shows_failed_deaths(node.compat)
        return entry

    def make_ready(self) -> Ready:
        """An empty order of waiting for this queue."""
        levels = self.settings.max_priority + 1
        return ReadyByPriority(levels) if levels > 1 else ReadyFifo()

    def size_of(self, message: Message) -> int:
        """What a message counts towards a limit in bytes: its body."""
        return len(message.body)

    def priority_of(self, message: Message) -> int:
        """The level a message waits on: the highest there is, where it asks for more."""
        return min(message.properties.priority or 0, self.settings.max_priority)

    def refuses(self, message: Message) -> bool:
        """Whether a full queue with overflow reject-publish refuses one more message, consumers or not."""
        return limits.would_overflow(self, message)

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Take a message in, or refuse it (False) when full. Hot: once per message and queue."""
        if not self.is_plain or message.asks_for_more:
            return self._enqueue_by_the_rules(message, src_copy)
        return self.take_in(message, src_copy)

    def take_in(self, message: Message, src_copy: int | None = None) -> bool:
        """Take a message in that wants no more of this plain queue. Hot: once per message and queue."""
        node = self.node
        copy = node.last_copy = node.last_copy + 1
        tap = self.hooks.tap
        if tap is not None:
            tap((events.ENQUEUED, node.now, self.vhost.name, self.name, message, copy, src_copy, None))
        if self.consumers and not self.ready.count:
            consumer = self.ring.take()
            if consumer is not None:
                self.hand_out(QueueEntry(message, copy, copy, node.now), consumer)
                return True
        self.ready.append_message(message, copy, node.now)
        return True

    def _enqueue_by_the_rules(self, message: Message, src_copy: int | None) -> bool:
        """Take a message in where limits, age, priority or the type have a say."""
        settings = self.settings
        if settings.is_refusing and self.refuses(message):
            limits.refuse(self, message)
            return False
        entry = self.new_entry(message)
        if settings.message_ttl_us is not None or message.properties.expiration is not None:
            entry.expires_at = expiry.deadline_of(self, message, entry.enqueued_at)
        entry.priority = self.priority_of(message)
        tap = self.hooks.tap
        if tap is not None:
            where = (self.vhost.name, self.name)
            tap((events.ENQUEUED, entry.enqueued_at, *where, message, entry.copy, src_copy, entry.expires_at))
        if not self.ready:
            consumer = self.ring.take()
            if consumer is not None:
                # Straight to a waiting consumer: neither limits nor a TTL of 0 stand in the way (seen on 4.3).
                self.forget_failed_deaths(entry)
                self.hand_out(entry, consumer)
                return True
        self.ready.append(entry)
        has_new_head = settings.is_dropping and limits.drop_from_head(self)
        if has_new_head or (entry.expires_at is not None and self.may_be_head(entry)):
            expiry.expire_heads(self)
        return True

    @property
    def _has_no_rules(self) -> bool:
        """Whether a message without an expiration of its own is just appended: what `is_plain` remembers."""
        settings = self.settings
        has_limits = settings.is_limited or settings.message_ttl_us is not None
        return type(self) is Queue and not has_limits and not settings.max_priority

    def may_be_head(self, entry: QueueEntry) -> bool:
        """Whether an entry that has just arrived is looked at for its age.

        RabbitMQ's classic queue looks only when the entry is alone: a later one of higher priority goes to the front
        unwatched, and outlives its time until something else happens there (rabbit_amqqueue_process, seen on 4.3).
        """
        return len(self.ready) == 1 or self.type.name != "classic"

    def dead_letters_surely(self, entry: QueueEntry, reason: str, exchange_name: str) -> bool:
        """Whether the type sees to it itself that a dying message arrives."""
        return False

    def deliver_ready(self) -> None:
        """Hand out what waits while a consumer has room."""
        ready, ring = self.ready, self.ring
        looks_first = self.type.name != "classic"
        while ready.count and not self.is_held:
            if looks_first and ready.has_deadlines and ready.head_deadline() is not None:
                expiry.expire_heads(self)
                if not ready:
                    return
            consumer = ring.take()
            if consumer is None:
                return
            if consumer.no_ack and self._hand_out_run(consumer):
                continue
            self.hand_out(ready.pop(), consumer)
            if not looks_first and ready.has_deadlines and ready.head_deadline() is not None:
                # Fetch, then drop_expired_msgs (rabbit_amqqueue_process, seen on 4.3).
                expiry.expire_heads(self)

    def _hand_out_run(self, consumer: Consumer) -> bool:
        """The fast road of a backlog to the only consumer there is, which acknowledges nothing; whether it was gone."""
        ready = self.ready
        if not self.is_plain or ready.count < 2 or ready.has_deadlines or self.ring.only() is not consumer:
            return False
        if not consumer.subscriber.takes_runs(consumer):
            return False
        assert isinstance(ready, ReadyFifo), "a plain queue has no priorities"
        waiting, copies = ready.pop_unseen(_RUN)
        if waiting:
            consumer.subscriber.deliver_run(consumer, waiting, copies)
        return bool(waiting)

    def hold(self) -> None:
        """Hand out nothing until the work at hand is done: a channel ends, and what it held comes back first."""
        if not self.is_held:
            self.is_held = True
            self.node.work.append(self._go_on)

    def _go_on(self) -> None:
        self.is_held = False
        if not self.is_deleted:
            self.tidy_returns()

    def hand_out(self, entry: QueueEntry, consumer: Consumer) -> None:
        """Give an entry to a consumer, which keeps its turn with or without room. Hot: once per delivery."""
        if not consumer.no_ack:
            self.unacked[entry.copy] = entry
            consumer.unacked_count += 1
            if self.consumer_timeout is not None:
                self.consumer_timeout.watch(entry, consumer.subscriber, consumer)
        consumer.subscriber.deliver(consumer, entry)

    def refuse_get(self) -> None:
        """Refuse basic.get where the type does not allow it."""

    def get(self, subscriber: Subscriber | None = None, *, no_ack: bool) -> QueueEntry | None:
        """Take the head out for basic.get, None when nothing waits."""
        self.refuse_get()
        expiry.watch_disuse(self)
        if self.type.name != "classic":
            # A classic queue looks behind what it has taken out, and hands out what nothing made it look at.
            expiry.expire_heads(self)
        if not self.ready:
            return None
        entry = self.ready.pop()
        if not no_ack:
            self.unacked[entry.copy] = entry
            if self.consumer_timeout is not None and subscriber is not None:
                self.consumer_timeout.watch(entry, subscriber, None)
        if no_ack or self.type.name == "classic":
            expiry.expire_heads(self)
        else:
            # A quorum queue looks at what is behind it after the answer, which counts it (seen on 4.3).
            self.node.work.append(self._look_at_heads)
        return entry

    def _look_at_heads(self) -> None:
        if not self.is_deleted:
            expiry.expire_heads(self)

    def acknowledge(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        """End a delivery: the message is done. Hot: once per acknowledged message."""
        self._let_go(entry, consumer)
        if self.ready.count:
            self.deliver_ready()

    def discard(self, entry: QueueEntry, consumer: Consumer | None, *, is_failure: bool) -> None:
        """End a delivery: the message is dead-lettered, or dropped. A reject is a failure, a nack is not."""
        self._let_go(entry, consumer)
        if self.is_deleted:
            return
        entry.delivery_count += is_failure
        if not dead_letter.send(self, entry, dead_letter.REJECTED):
            self.tap_dropped(entry, events.NO_ROUTE)
        self.deliver_ready()

    def requeue(self, returns: Sequence[tuple[QueueEntry, Consumer | None]], reason: str, *, is_failure: bool) -> None:
        """Bring deliveries back to their places, in the order given. `is_failure`: a reject or a lost channel."""
        for entry, consumer in returns:
            self._let_go(entry, consumer)
        if self.is_deleted:
            return
        returned = []
        for entry, _ in returns:
            entry.redelivered = True
            entry.acquired_count += 1
            entry.delivery_count += is_failure
            if self.takes_back(entry, reason, is_failure=is_failure):
                returned.append(entry)
        self.ready.put_back(returned)
        if not self.is_held:
            self.tidy_returns()

    def tidy_returns(self) -> None:
        """Apply limits and deadlines to what came back, and hand out what is left."""
        if self.settings.is_dropping:
            limits.drop_from_head(self)
        expiry.expire_heads(self)
        self.deliver_ready()

    def takes_back(self, entry: QueueEntry, reason: str, *, is_failure: bool) -> bool:
        """Whether a returned entry becomes ready at once; a type that says no has done something else with it."""
        self.tap_copy(events.REQUEUED, entry, reason)
        return True

    def forget_failed_deaths(self, entry: QueueEntry) -> None:
        """Hand an entry straight to a consumer: a classic queue has not had it, so it is not redelivered."""
        entry.redelivered = False

    def _let_go(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        # Hot: once per settled delivery.
        self.unacked.pop(entry.copy, None)
        if self.consumer_timeout is not None:
            self.consumer_timeout.forget(entry.copy)
        if consumer is not None:
            consumer.unacked_count -= 1
            assert consumer.unacked_count >= 0, f"a delivery of {consumer.tag} was settled twice"
            if consumer.is_cancelled:
                self.widen_namesake(consumer)
            elif not consumer.is_active:
                self.replace_active(consumer)
            elif not consumer.is_in_ring and consumer.has_room():
                self.ring.add(consumer)

    def widen_namesake(self, gone: Consumer) -> None:
        """Let whoever consumes under the tag of one that is gone hold one more, for good.

        A classic queue counts what a consumer may have by channel and tag, and each settlement adds one
        (rabbit_limiter, seen on 3.10, 4.0 and 4.3).
        """
        for consumer in self.consumers:
            if consumer.tag == gone.tag and consumer.subscriber is gone.subscriber and consumer.limit:
                consumer.limit += 1
                self.ring_if_room(consumer)

    def replace_active(self, consumer: Consumer) -> None:
        """A consumer that is not the active one has settled something; it may have been waited for."""

    def add_consumer(self, consumer: Consumer) -> Consumer:
        """Let a consumer in; raises AccessRefused where exclusive use forbids it."""
        self.refuse_consumer(consumer)
        self.consumers.append(consumer)
        if not consumer.ordinal:
            self.last_ordinal += 1
            consumer.ordinal = self.last_ordinal
        if self.settings.is_single_active:
            self.place_single_active(consumer)
        expiry.watch_disuse(self)
        return consumer

    def refuse_consumer(self, consumer: Consumer) -> None:
        """Refuse a consumer where exclusive use forbids it; remember an exclusive one."""
        is_shared = bool(self.consumers) or self.settings.is_single_active
        if self.exclusive_consumer is not None or (consumer.is_exclusive and is_shared):
            raise AccessRefused(f"{self.place} in exclusive use")
        if consumer.is_exclusive:
            self.exclusive_consumer = consumer

    def place_single_active(self, consumer: Consumer) -> None:
        """Let a new consumer be the active one, or wait: the first to come stays."""
        consumer.is_active = self.active_consumer is None
        if consumer.is_active:
            self.active_consumer = consumer

    def start_consumer(self, consumer: Consumer) -> None:
        """Begin to deliver: after the client has been told that its consumer is there."""
        self.ring_if_room(consumer)
        self.deliver_ready()

    def ring_if_room(self, consumer: Consumer) -> None:
        """Let a consumer that may have got room wait for its turn."""
        if not consumer.is_cancelled and not consumer.is_in_ring and consumer.has_room():
            self.ring.add(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Let a consumer go; what it holds stays with its channel."""
        if consumer.is_cancelled:
            return
        consumer.is_cancelled = True
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
            expiry.watch_disuse(self)

    def activate_next(self) -> None:
        """Make the highest priority the single active consumer; among equals the one that came first."""
        self.active_consumer = max(self.consumers, key=lambda consumer: consumer.priority, default=None)
        if self.active_consumer is not None:
            self.active_consumer.is_active = True
            self.start_consumer(self.active_consumer)

    def purge(self) -> int:
        """Forget what is ready; the number of messages forgotten."""
        return self._forget_ready("purged")

    def closed(self) -> int:
        """End of the queue: forget what it held and tell its consumers. Called by the vhost alone."""
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
        """Take on new effective settings: limits trim at once, a TTL is for what arrives later."""
        self.settings = settings
        self.is_plain = self._has_no_rules
        if settings.is_dropping and limits.drop_from_head(self):
            expiry.expire_heads(self)
        expiry.watch_disuse(self)

    @property
    def keeps_every_message(self) -> bool:
        """Whether messages survive a restart whatever their delivery mode."""
        return self.type.is_always_durable

    def forget_transient(self) -> None:
        """Lose every message that is not persistent: the node restarts."""
        if self.keeps_every_message:
            return
        for entry in self.ready.take_out(lambda entry: not entry.message.is_persistent):
            self.tap_dropped(entry, "restart")
        expiry.expire_heads(self)

    def used(self) -> None:
        """Somebody declared it: the clock of x-expires starts anew."""
        expiry.watch_disuse(self)

    def tap_dropped(self, entry: QueueEntry, reason: str) -> None:
        """Record that a copy was lost for good."""
        self.tap_copy(events.DROPPED, entry, reason)

    def _forget_ready(self, reason: str) -> int:
        forgotten = self.ready.clear()
        for entry in forgotten:
            self.tap_copy(events.PURGED, entry, reason)
        return len(forgotten)
