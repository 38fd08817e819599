"""A classic queue, where it differs from a quorum queue.

What comes back goes to its place by its position. A full queue may refuse messages, an exclusive consumer is alone, and
what is not persistent does not survive a restart. Most classic queues are plain: their messages are just appended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.core.model import dead_letter, limits
from leveret.core.model.consumer import Consumer
from leveret.core.model.errors import AccessRefused, PreconditionFailed
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queue import Queue
from leveret.core.model.ready import Ready, ReadyByPriority, ReadyFifo
from leveret.core.model.settings import QueueSettings
from leveret.core.model.stored_queue import QueueSpec
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.ports import Subscriber

# So many are handed out at once where nothing is acknowledged.
_RUN: Final = 256


class ClassicQueue(Queue):
    """A queue of type classic."""

    # Its mailbox gives acknowledgements before publishes (rabbit_amqqueue_process, seen on 3.10, 4.0 and 4.3).
    acks_overtake_at_commit = True

    __slots__ = ("is_plain",)

    def __init__(self, spec: QueueSpec) -> None:
        super().__init__(spec)
        # Whether nothing but the message itself can ask for more than to be appended.
        self.is_plain = _has_no_rules(spec.settings)

    @property
    def has_consumer_timeout(self) -> bool:
        """Whether deliveries may be held for so long only: in RabbitMQ 4.3 those of a classic queue for ever."""
        return not self.node.compat.consumer_timeout_is_quorum_only

    def make_ready(self) -> Ready:
        """Return an empty order of waiting: by priority where there are priorities."""
        levels = self.settings.max_priority + 1
        return ReadyByPriority(levels) if levels > 1 else ReadyFifo()

    def priority_of(self, message: Message) -> int:
        """Return the level a message waits on: the highest there is, where it asks for more."""
        return min(message.properties.priority or 0, self.settings.max_priority)

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Take a message in, or refuse it (False) when full. Hot: once per message and queue."""
        if not self.is_plain or message.asks_for_more:
            settings = self.settings
            # Consumers or not.
            if settings.is_refusing and limits.would_overflow(settings, self.ready, len(message.body)):
                self._refuse(message)
                return False
            return self.enqueue_by_rules(message, src_copy)
        return self.take_in(message, src_copy)

    def _refuse(self, message: Message) -> None:
        """Do with a refused message what the overflow mode says: reject-publish-dlx dead-letters it as well."""
        if self.settings.overflow == "reject-publish-dlx":
            dead_letter.send(self, self.new_entry(message), dead_letter.MAXLEN)

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

    def forget_failed_deaths(self, entry: QueueEntry) -> None:
        """Clear the flag: the queue has not had the message, so it is not redelivered."""
        entry.redelivered = False

    def may_be_head(self, entry: QueueEntry) -> bool:
        """Return whether an entry that has just arrived is looked at for its age.

        RabbitMQ's classic queue looks only when the entry is alone: a later one of higher priority goes to the front
        unwatched, and outlives its time until something else happens there (rabbit_amqqueue_process, seen on 4.3).
        """
        return len(self.ready) == 1

    def deliver_ready(self) -> None:
        """Hand out what waits while a consumer has room, and look at the age of what is behind it."""
        ready, ring = self.ready, self.ring
        while ready.count and not self.is_held:
            consumer = ring.take()
            if consumer is None:
                return
            if consumer.no_ack and self._hand_out_run(consumer):
                continue
            self.hand_out(ready.pop(), consumer)
            if ready.has_deadlines and ready.head_deadline() is not None:
                # Fetch, then drop_expired_msgs (rabbit_amqqueue_process, seen on 4.3).
                self.expire_heads()

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

    def get(self, subscriber: Subscriber | None = None, *, no_ack: bool) -> QueueEntry | None:
        """Take the head out for basic.get, None when nothing waits."""
        self.watch_disuse()
        # It looks behind what it has taken out, and hands out what nothing made it look at.
        entry = self.fetch(subscriber, no_ack=no_ack)
        if entry is not None:
            self.expire_heads()
        return entry

    def takes_back(self, entry: QueueEntry, reason: str, *, is_failure: bool) -> bool:
        """Take back whatever returns."""
        self.tap_copy(events.REQUEUED, entry, reason)
        return True

    def tidy_returns(self) -> None:
        """Apply limits and deadlines to what came back, and hand out what is left."""
        if self.settings.is_dropping:
            self.drop_from_head()
        self.expire_heads()
        self.deliver_ready()

    def refuse_consumer(self, consumer: Consumer) -> None:
        """Refuse a consumer where exclusive use forbids it; remember an exclusive one."""
        is_shared = bool(self.consumers) or self.settings.is_single_active
        if self.exclusive_consumer is not None or (consumer.is_exclusive and is_shared):
            raise AccessRefused(f"{self.place} in exclusive use")
        if consumer.is_exclusive:
            self.exclusive_consumer = consumer

    def refuse_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Refuse to be deleted where the conditions of queue.delete are not met."""
        if if_empty and self.ready:
            raise PreconditionFailed(f"{self.place} not empty")
        if if_unused and self.consumers:
            raise PreconditionFailed(f"{self.place} in use")

    def apply(self, settings: QueueSettings) -> None:
        """Take on new effective settings: limits trim at once, a TTL is for what arrives later."""
        self.is_plain = _has_no_rules(settings)
        super().apply(settings)

    def forget_transient(self) -> None:
        """Lose every message that is not persistent: the node restarts."""
        for entry in self.ready.take_out(lambda entry: not entry.message.is_persistent):
            self.tap_dropped(entry, "restart")
        self.expire_heads()


def _has_no_rules(settings: QueueSettings) -> bool:
    """Return whether a message without an expiration of its own is just appended."""
    return not settings.is_limited and settings.message_ttl_us is None and not settings.max_priority
