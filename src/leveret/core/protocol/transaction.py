"""The transaction of one channel: what is held back until commit.

Publishes are routed when they arrive and enqueued at commit. Acknowledgements take effect at commit. Until then their
deliveries count as unacknowledged, but cannot be settled again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from leveret.core.model.message import Message
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.reply_to import ReplyQueue
from leveret.core.model.routing import AnyQueue
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol.delivery import Delivery


class HeldPublish(NamedTuple):
    """A routed publish that its queues do not hold yet."""

    message: Message
    queues: Sequence[AnyQueue]
    is_mandatory: bool

    def at_commit(self, vhost: VirtualHost) -> HeldPublish:
        """Return the publish to the queues that exist now.

        A quorum queue that was declared again is found by its name, and depending on the version every queue is.
        """
        if vhost.node.compat.commit_finds_queues_by_name:
            return self._replace(queues=self._found_by_name(vhost))
        if not self.deleted_queues:
            return self
        return self._replace(queues=[_now(queue) for queue in self.queues])

    def _found_by_name(self, vhost: VirtualHost) -> Sequence[AnyQueue]:
        if not self.message.exchange:
            # Routing there yields every routing key, whether or not it names a queue (rabbit_exchange, seen on 3.10).
            queues = vhost.route(vhost.exchanges[""], self.message)
            # Replies were sent before.
            return [queue for queue in queues if not isinstance(queue, ReplyQueue)]
        return [vhost.queues[queue.name] for queue in self.queues if queue.name in vhost.queues]

    @property
    def deleted_queues(self) -> list[StoredQueue]:
        """The queues that existed when the message was routed and no longer do."""
        return [queue for queue in self.queues if isinstance(queue, StoredQueue) and queue.is_deleted]


def _now(queue: AnyQueue) -> AnyQueue:
    if not isinstance(queue, StoredQueue) or not queue.settles_first_at_commit:
        return queue
    anew = queue.vhost.queues.get(queue.name)
    return anew if anew is not None and anew.type is queue.type else queue


# What is done with deliveries, and whether it is a failure.
Way = tuple[str, bool]


class Settlement(NamedTuple):
    """Deliveries to settle in one way. What follows in the same way is settled with them, by tag."""

    # Equal neighbours are combined.
    way: Way
    # By method: its event, its deliveries, and the newest of their tags if it had `multiple` set.
    methods: list[tuple[str, Sequence[Delivery], int | None]]

    def part(self, is_taken: Callable[[Way, StoredQueue], bool]) -> Settlement:
        """Return the part that is chosen by its way and its queue."""
        methods: list[tuple[str, Sequence[Delivery], int | None]] = []
        for kind, deliveries, up_to_tag in self.methods:
            part = [delivery for delivery in deliveries if is_taken(self.way, delivery.queue)]
            if part:
                methods.append((kind, part, up_to_tag))
        return Settlement(self.way, methods)

    @property
    def deliveries(self) -> list[Delivery]:
        """All of them, oldest first."""
        deliveries = [delivery for _, deliveries, _ in self.methods for delivery in deliveries]
        return sorted(deliveries, key=lambda delivery: delivery.tag)


class Transaction:
    """The work of one channel since tx.select or the last commit or rollback."""

    __slots__ = ("deliveries", "publishes", "settlements")

    def __init__(self) -> None:
        # Routed, not yet enqueued.
        self.publishes: list[HeldPublish] = []
        self.settlements: list[Settlement] = []
        # The deliveries that `settlements` would settle.
        self.deliveries: list[Delivery] = []

    def hold(self, settlement: Settlement) -> None:
        """Keep what a method settles for the commit."""
        self.deliveries.extend(settlement.deliveries)
        if self.settlements and self.settlements[-1].way == settlement.way:
            self.settlements[-1].methods.extend(settlement.methods)
        else:
            self.settlements.append(settlement)

    def take_at_once(self) -> list[Settlement]:
        """Return and remove what takes effect before commit-ok in any case."""
        return self._pop(lambda _, queue: queue.settles_at_once)

    def take_overtaking(self) -> list[Settlement]:
        """Return and remove what is settled before any publish is enqueued."""
        return self._pop(lambda way, queue: way[0] == "ack" and queue.acks_overtake_at_commit)

    def _pop(self, is_taken: Callable[[Way, StoredQueue], bool]) -> list[Settlement]:
        taken = [settlement.part(is_taken) for settlement in self.settlements]
        rest = [settlement.part(lambda way, queue: not is_taken(way, queue)) for settlement in self.settlements]
        self.settlements = [settlement for settlement in rest if settlement.methods]
        return [settlement for settlement in taken if settlement.methods]
