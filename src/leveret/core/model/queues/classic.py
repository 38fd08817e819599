"""The classic queue: what it does differently from a quorum queue.

A requeued message returns to its place by its position. A full queue may refuse messages, an exclusive consumer shares
the queue with no other, and messages that are not persistent do not survive a restart. Most classic queues are plain:
they just append their messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leveret.core.model.dead_letters import dead_letter
from leveret.core.model.errors import AccessRefused, PreconditionFailed
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.ports import Subscriber
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.queue import Queue
from leveret.core.model.queues.ready import Ready, ReadyByPriority, ReadyFifo
from leveret.core.model.queues.settings import QueueSettings
from leveret.core.model.queues.stored_queue import QueueSpec
from leveret.trace import events

# How many messages are handed out at once to a consumer with automatic acknowledgement.
_RUN: Final = 256


class ClassicQueue(Queue):
    """A queue of type classic."""

    # Its process handles acknowledgements before publishes (rabbit_amqqueue_process, seen on 3.10, 4.0 and 4.3).
    acks_overtake_at_commit = True
    shares_prefetch = True

    __slots__ = ("is_plain", "is_waiting_for_cause")

    def __init__(self, spec: QueueSpec) -> None:
        super().__init__(spec)
        # Whether the queue just appends every message that has no requirements of its own.
        self.is_plain = self._has_no_rules(spec.settings)
        # Held since its single active consumer was cancelled; see `activate_next`.
        self.is_waiting_for_cause = False

    @property
    def has_consumer_timeout(self) -> bool:
        """Whether a delivery may be held only for a limited time: in RabbitMQ 4.3 a classic queue has no limit."""
        return not self.node.compat.consumer_timeout_is_quorum_only

    def make_ready(self) -> Ready:
        """Return an empty order of ready entries: by priority if the queue has priorities."""
        return ReadyByPriority() if self.settings.max_priority else ReadyFifo()

    def priority_of(self, message: Message) -> int:
        """Return the level of a message: its priority, at most the queue's highest."""
        return min(message.envelope.priority or 0, self.settings.max_priority)

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Take a message in, or refuse it (False) if the queue is full. Hot: once per message and queue."""
        if not self.is_plain or message.asks_for_more:
            settings = self.settings
            if self.is_waiting_for_cause:
                self._stop_waiting()
                self.deliver_ready()
            # A waiting consumer makes no difference.
            ready = self.ready
            if settings.is_refusing and settings.are_exceeded_by(ready.count + 1, ready.size_bytes + len(message.body)):
                if settings.overflow == "reject-publish-dlx":
                    dead_letter.send(self, self.new_entry(message), dead_letter.MAXLEN)
                return False
            return self.enqueue_by_rules(message, src_copy)
        return self.take_in(message, src_copy)

    def take_in(self, message: Message, src_copy: int | None = None) -> bool:
        """Take a message in that this plain queue just appends. Hot: once per message and queue."""
        node = self.node
        copy = node.last_copy = node.last_copy + 1
        tap = self.hooks.tap
        if tap is not None:
            tap((events.ENQUEUED, node.now, self.vhost.name, self.name, message, copy, src_copy, None))
        if self.consumers and not self.ready.count:
            consumer = self.ring.next_consumer()
            if consumer is not None:
                self.hand_out(QueueEntry(message, copy, copy, node.now), consumer)
                return True
        self.ready.append_message(message, copy, node.now)
        return True

    @property
    def discards_at_once(self) -> bool:
        """Whether a message that no consumer takes at once is never stored: a TTL of 0 without dead letters.

        It does not count towards the limits (rabbit_amqqueue_process, seen on 3.10, 4.0 and 4.3).
        """
        return self.settings.message_ttl_us == 0 and self.settings.dead_letter_exchange is None

    def pass_straight(self, entry: QueueEntry) -> None:
        """Clear the flag: the queue never stored the message, so it is not redelivered."""
        entry.redelivered = False

    def checks_age_of(self, entry: QueueEntry) -> bool:
        """Return whether the age of an entry that has just arrived is checked.

        RabbitMQ's classic queue checks only when the entry is alone. A later entry of higher priority goes to the front
        unchecked and stays past its deadline until something else happens there (rabbit_amqqueue_process, seen on 4.3).
        """
        return len(self.ready) == 1

    def deliver_ready(self) -> None:
        """Hand out ready entries while a consumer has room, and check the age of the next one after each."""
        ready, ring = self.ready, self.ring
        while ready.count and not self.is_held:
            consumer = ring.next_consumer()
            if consumer is None:
                return
            if consumer.no_ack and self._hand_out_run(consumer):
                continue
            self.hand_out(ready.pop(), consumer)
            if ready.has_deadlines and ready.head_deadline() is not None:
                # Fetch, then drop_expired_msgs (rabbit_amqqueue_process, seen on 4.3).
                self.expire_heads()

    def _hand_out_run(self, consumer: Consumer) -> bool:
        """Hand out many messages at once to a lone consumer with automatic acknowledgement; return whether any went."""
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

    def get(self, subscriber: Subscriber | None = None, *, no_ack: bool) -> QueueEntry | None:
        """Take the head out for basic.get; return None if the queue is empty."""
        self.watch_disuse()
        # The age of the entry itself is not checked before it is handed out; only the entries behind it are checked.
        entry = self.fetch(subscriber, no_ack=no_ack)
        if entry is not None:
            self.expire_heads()
        return entry

    def take_back(self, entry: QueueEntry, consumer: Consumer | None, reason: str, *, is_failure: bool) -> bool:
        """Take back every returned entry."""
        self.tap_copy(events.REQUEUED, entry, reason)
        return True

    def tidy_returns(self) -> None:
        """Apply limits and deadlines to what came back, and hand out the rest."""
        if self.settings.is_dropping:
            self.drop_from_head()
        self.expire_heads()
        self.deliver_ready()

    def admit_consumer(self, consumer: Consumer) -> None:
        """Admit a consumer and remember an exclusive one, or refuse it if exclusive use forbids it."""
        is_shared = bool(self.consumers) or self.settings.is_single_active
        if self.exclusive_consumer is not None or (consumer.is_exclusive and is_shared):
            raise AccessRefused(f"{self.title} in exclusive use").about("in_use", kind="queue", name=self.name)
        if consumer.is_exclusive:
            self.exclusive_consumer = consumer

    def refuse_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Refuse to be deleted if the conditions of queue.delete are not met."""
        if if_empty and self.ready:
            raise PreconditionFailed(f"{self.title} not empty")
        if if_unused and self.consumers:
            raise PreconditionFailed(f"{self.title} in use")

    def apply(self, settings: QueueSettings) -> None:
        """Take on new effective settings: limits apply at once, and the overflow after them (seen on 3.10 to 4.3)."""
        self.is_plain = self._has_no_rules(settings)
        super().apply(settings._replace(overflow=self.settings.overflow))
        super().apply(settings)

    def forget_transient(self) -> None:
        """Drop every message that is not persistent, because the node restarts."""
        for entry in self.ready.take_out(lambda entry: not entry.message.is_persistent):
            self.tap_copy(events.DROPPED, entry, "restart")
        self.expire_heads()

    def _has_no_rules(self, settings: QueueSettings) -> bool:
        """Return whether a message without its own expiration is just appended."""
        if settings.is_single_active and not self.node.compat.cancel_serves_next:
            return False
        return not settings.is_limited and settings.message_ttl_us is None and not settings.max_priority

    def activate_next(self) -> None:
        """Activate the next consumer, which in some versions gets nothing before something happens at the queue."""
        if not (self.node.compat.cancel_serves_next or self.is_held):
            self.is_held = self.is_waiting_for_cause = bool(self.ready)
        super().activate_next()

    def hold(self) -> None:
        """Hand out nothing until the current work is done."""
        self._stop_waiting()
        super().hold()

    def add_consumer(self, consumer: Consumer) -> Consumer:
        """Add a consumer. Raises AccessRefused if exclusive use forbids it."""
        added = super().add_consumer(consumer)
        self._stop_waiting()
        return added

    def requeue(self, returns: Sequence[tuple[QueueEntry, Consumer | None]], reason: str, *, is_failure: bool) -> None:
        """Return deliveries to their places, in the order given."""
        self._stop_waiting()
        super().requeue(returns, reason, is_failure=is_failure)

    def _stop_waiting(self) -> None:
        if self.is_waiting_for_cause:
            self.is_waiting_for_cause = self.is_held = False
