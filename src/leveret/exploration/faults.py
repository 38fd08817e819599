"""The faults that only exploration places: a connection lost after a step, a worker killed at a step, and a delivery
that the next one overtakes.

The first lets nothing arrive that follows on the connection, in either direction. The second is as when a message was
held by a consumer that has gone: RabbitMQ requeues it in its old position, but messages that were delivered meanwhile
have overtaken it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from leveret.core.model.queues.queue import Queue
from leveret.faults import Fault, Occasion, ResetPeer
from leveret.workers.worker import RUNNING, Worker

if TYPE_CHECKING:
    from leveret.core.protocol.connection import Connection

# How long the client may take to read what it was sent, in real time. A reset would discard it.
_READ_US: Final = 100_000
# How long the delivery waits for another message to overtake it, in real time.
_WAIT_US: Final = 20_000


class LostAfter(ResetPeer):
    """A connection that is lost once the broker has handled a method, or once the client has read one."""

    def __init__(self) -> None:
        super().__init__("after")

    def apply(self, occasion: Occasion) -> bool:
        """Reset the connection, at the latest when the client has had time to read. `Watcher` drops what follows."""
        if occasion.point == "method":
            return super().apply(occasion)
        occasion.proceed()
        assert occasion.connection is not None
        occasion.call_in_real_time(_READ_US, partial(_reset, occasion.connection))
        return True


class Killed(ResetPeer):
    """A worker's process that is killed just `when` ("before" or "after") the broker handles what it has sent.

    It is started again at once, and connects anew.
    """

    points = ("method",)

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether a worker has sent this."""
        return _worker_of(occasion) is not None

    def apply(self, occasion: Occasion) -> bool:
        """Kill first, so that the process does nothing more, and then lose the connection before or after."""
        worker = _worker_of(occasion)
        assert worker is not None
        worker.die()
        return super().apply(occasion)


def _worker_of(occasion: Occasion) -> Worker | None:
    connection = occasion.connection
    return None if connection is None else RUNNING.get(connection.local[1])


def _reset(connection: Connection) -> None:
    if not connection.is_reset:
        connection.reset()


class OutOfOrder(Fault):
    """A delivery that comes after its consumer's next one, flagged as redelivered, or alone if there is none."""

    name = "out_of_order"
    points = ("deliver",)

    def __init__(self) -> None:
        self._held: Occasion | None = None
        self._is_overtaken = False

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the queue may lose its order. A stream keeps it, and so does a single active consumer."""
        queue = None if occasion.subscription is None else occasion.subscription.queue
        return isinstance(queue, Queue) and not queue.settings.is_single_active

    def apply(self, occasion: Occasion) -> bool:
        """Hold the delivery back."""
        self._held = occasion
        occasion.hold(self.name, occasion.node.now + _WAIT_US)
        occasion.call_soon(self._check)
        return True

    def note_delivery(self, occasion: Occasion) -> None:
        """Note that another delivery is on its way. If it has the same consumer, it overtakes the one held back."""
        held = self._held
        if held is not None and held.subscription is occasion.subscription and not self._is_overtaken:
            self._is_overtaken = True
            occasion.call_soon(self._check)

    def _check(self) -> None:
        held = self._held
        if held is None:
            return
        if self._is_overtaken:
            self._release(held)
        elif not self._swap(held):
            held.call_in_real_time(_WAIT_US, self._give_up)

    def _give_up(self) -> None:
        if self._held is not None and not self._swap(self._held):
            self._release(self._held)

    def _release(self, held: Occasion) -> None:
        self._held = None
        held.release()
        assert held.entry is not None
        held.entry.redelivered = held.entry.redelivered or self._is_overtaken
        held.proceed()

    def _swap(self, held: Occasion) -> bool:
        """Requeue the delivery behind the next ready message, for a consumer whose prefetch allows no second delivery.

        Return False if that is impossible.
        """
        consumer, entry = held.subscription, held.entry
        assert consumer is not None
        assert entry is not None
        queue = consumer.queue
        assert isinstance(queue, Queue)
        following = next(iter(queue.ready), None)
        if following is None or consumer.no_ack or queue.is_deleted:
            return False
        self._held = None
        held.release()
        following = queue.ready.pop()
        entry.position, following.position = following.position, entry.position
        queue.ready.put_back([following])
        queue.requeue([(entry, consumer)], "channel_closed", is_failure=True)
        return True
