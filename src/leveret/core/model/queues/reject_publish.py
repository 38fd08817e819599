"""The publishers of a quorum queue with overflow reject-publish.

Such a queue refuses publishers, not messages. When it exceeds a limit, it stops every channel that has published to it.
Once it is down to 80 % of its limits, it lets them continue (rabbit_fifo; seen on 4.3). A channel that publishes for
the first time while the queue is between the two is not stopped. Dead letters have no channel and are always taken,
unless they are dead-lettered at least once.

Every channel that published to the queue is known, whatever the overflow was. A channel that is stopped stays so under
any other overflow, until the queue refuses publishers again and is low after it was not, or has no limit any more.
"""

from __future__ import annotations

from weakref import WeakSet

from leveret.core.model.queues.queue import Queue


class Publishers:
    """The publishers of one queue, and those of them that it has stopped."""

    __slots__ = ("__weakref__", "_has_been_high", "_is_due", "_publishers", "_queue", "_stopped")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._publishers: WeakSet[object] = WeakSet()
        self._stopped: WeakSet[object] = WeakSet()
        # Whether the queue has exceeded 80 % of its limits since they were set.
        self._has_been_high = False
        # Whether publishers will be stopped when the current work is done.
        self._is_due = False

    @property
    def are_stopped(self) -> bool:
        """Whether any publisher is stopped."""
        return bool(self._stopped)

    def is_stopped(self, publisher: object) -> bool:
        """Return whether the queue takes nothing from this publisher. A new publisher is known from now on."""
        self.resume_if_low()
        # This object stands for a publisher that is not a channel: the test itself.
        publisher = publisher or self
        if publisher not in self._publishers:
            self._publishers.add(publisher)
            if self._queue.settings.is_refusing and self._queue.exceeds_limits:
                self._stopped.add(publisher)
        return publisher in self._stopped

    def stop_if_full(self) -> None:
        """Stop all known publishers if the ready messages exceed a limit. Called after more became ready.

        They hear of it when the current work is done, so all publishes of a commit are taken (seen on 3.10 to 4.3).
        """
        queue = self._queue
        if not self._has_been_high:
            self._has_been_high = not queue.is_well_below_limits
        if not self._is_due and queue.exceeds_limits:
            self._is_due = True
            queue.node.work.append(self._stop)

    def _stop(self) -> None:
        self._is_due = False
        if self._queue.settings.is_refusing and self._queue.exceeds_limits:
            self._stopped |= self._publishers

    def resume_if_low(self) -> None:
        """Let all publishers continue if the ready messages are low enough. Called before more may become ready."""
        queue = self._queue
        if not self._stopped or not self._has_been_high or not queue.settings.is_refusing:
            return
        if queue.is_well_below_limits:
            self._stopped.clear()

    def apply(self, *, was_low: bool) -> None:
        """Act upon new settings of the queue, which was low by the old ones or not (rabbit_fifo, evaluate_limit)."""
        settings = self._queue.settings
        self._has_been_high = not (was_low and self._queue.is_well_below_limits)
        if settings.is_refusing:
            self.stop_if_full()
            self.resume_if_low()
        elif not settings.is_limited and self._queue.node.compat.losing_limits_resumes_publishers:
            self._stopped.clear()
