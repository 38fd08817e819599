"""What goes wrong with messages: lost, there twice, out of order, expired before their time.

What a queue keeps stays in the books: a delivery that is lost is held by its consumer as far as the broker knows, and
comes back when the consumer goes, as it would from RabbitMQ.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from leveret.core.model import dead_letter
from leveret.core.model.message import QueueEntry
from leveret.core.model.queue import Queue
from leveret.core.protocol import publishing
from leveret.core.wire.methods import BasicPublish
from leveret.faults.conversation import SECOND_US, hand_over
from leveret.faults.fault import Fault, Target
from leveret.faults.occasion import Occasion
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.consumer import Consumer


class Drop(Fault):
    """What a client sends never arrives, or what it is sent: a publish that was confirmed, a delivery, an ack."""

    name = "drop"
    points = ("method", "reply", "deliver")

    def strike(self, occasion: Occasion) -> bool:
        """Let it be as if it had arrived."""
        if occasion.point == "deliver":
            occasion.proceed_silently()
        elif isinstance(occasion.method, BasicPublish):
            _take_and_forget(occasion, occasion.method)
        return True


def _take_and_forget(occasion: Occasion, method: BasicPublish) -> None:
    """Answer a publish as if it had been put into queues."""
    channel, content = occasion.channel, occasion.content
    assert channel is not None
    assert content is not None
    publishing.publish_nowhere(channel, publishing.checked(channel, method, content), is_taken=True)


class Duplicate(Fault):
    """A message is delivered, and once more: a second copy stands at the head of its queue."""

    name = "duplicate"
    points = ("deliver",)
    # Whether the second one says that it was delivered before.
    is_flagged: ClassVar[bool] = False

    def applies(self, occasion: Occasion) -> bool:
        """Not a stream, which hands out what lies in it; and not the second copy itself."""
        consumer, entry = occasion.subscription, occasion.entry
        is_original = entry is not None and entry.copy not in self._copies
        return is_original and consumer is not None and isinstance(consumer.queue, Queue)

    def __init__(self) -> None:
        self._copies: dict[int, None] = {}

    def strike(self, occasion: Occasion) -> bool:
        """Deliver it, and have it delivered again."""
        entry, consumer = occasion.entry, occasion.subscription
        assert entry is not None
        assert consumer is not None
        occasion.soon(partial(self._put_again, consumer.queue, entry))
        return False

    def _put_again(self, queue: object, entry: QueueEntry) -> None:
        assert isinstance(queue, Queue)
        if queue.is_deleted:
            return
        again = queue.new_entry(entry.message)
        again.position, again.priority, again.redelivered = entry.position, entry.priority, self.is_flagged
        again.acquired_count = entry.acquired_count + self.is_flagged
        self._copies[again.copy] = None
        queue.tap_copy(events.ENQUEUED, again, None, None)
        queue.ready.put_back([again])
        queue.deliver_ready()


class Redeliver(Duplicate):
    """A message is delivered, and once more with the flag that says so, as after a lost connection."""

    name = "redeliver"
    is_flagged = True


class Reorder(Fault):
    """Deliveries of a consumer are gathered and sent in another order."""

    name = "reorder"
    points = ("deliver",)

    def __init__(self, window: int = 3, seconds: float = 0.1) -> None:
        if window < 2:
            raise ValueError(f"window={window!r}: of fewer than 2 deliveries there is no other order")
        self.window, self.span_us = window, round(seconds * SECOND_US)
        # What is gathered for each consumer.
        self._gathered: dict[Consumer, list[Occasion]] = {}

    def strike(self, occasion: Occasion) -> bool:
        """Keep it until there are enough, or time is up."""
        consumer = occasion.subscription
        assert consumer is not None
        gathered = self._gathered.setdefault(consumer, [])
        gathered.append(occasion)
        first = gathered[0]
        occasion.keep(self.name, occasion.node.now + self.span_us if first is occasion else first.kept[first][1])
        if len(gathered) == self.window:
            occasion.soon(partial(self._send, consumer, gathered))
        elif len(gathered) == 1:
            occasion.later(self.span_us, partial(self._send, consumer, gathered))
        return True

    def _send(self, consumer: Consumer, gathered: list[Occasion]) -> None:
        if self._gathered.get(consumer) is gathered:
            del self._gathered[consumer]
            for occasion in _shuffled(gathered):
                occasion.let_go()
                hand_over(occasion)


def _shuffled(gathered: list[Occasion]) -> list[Occasion]:
    """Another order than that of arrival, where there is one."""
    shuffled = sorted(gathered, key=lambda occasion: occasion.dice.random())
    return shuffled if shuffled != gathered or len(gathered) < 2 else gathered[1:] + gathered[:1]


class Expire(Fault):
    """Messages expire now, wherever in their queue they stand."""

    name = "expire"
    points = ("event",)
    target: ClassVar[Target] = "node"

    def applies(self, occasion: Occasion) -> bool:
        """Only where a message lies ready in a queue."""
        return occasion.queue is not None and occasion.source is not None

    def strike(self, occasion: Occasion) -> bool:
        """Take it out of its queue, and dead-letter it where that is asked for."""
        for vhost in occasion.node.vhosts.values():
            queue = vhost.queues.get(occasion.queue or "")
            if isinstance(queue, Queue):
                _expire(queue, occasion)
        return False


def _expire(queue: Queue, occasion: Occasion) -> None:
    source = occasion.source
    assert source is not None
    expired = queue.ready.take_out(lambda entry: entry.message.is_same(source))
    for entry in expired:
        queue.tap_copy(events.EXPIRED, entry)
        dead_letter.send(queue, entry, dead_letter.EXPIRED)
