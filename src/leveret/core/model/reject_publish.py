"""The publishers of a quorum queue with overflow reject-publish.

Such a queue refuses publishers, not messages. When it exceeds a limit, it stops every channel that has published to it.
Once it is down to 80 % of its limits, it lets them continue (rabbit_fifo; seen on 4.3). A channel that publishes for
the first time while the queue is between the two is not stopped. Dead letters have no channel and are always taken,
unless they are dead-lettered at least once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from leveret.core.model import limits

if TYPE_CHECKING:
    from leveret.core.model.queue import Queue


class _TestItself:
    """The publisher that stands for every publish without a channel."""


class Publishers:
    """The publishers of one queue, and those of them that it has stopped."""

    __slots__ = ("_known", "_queue", "_stopped", "_test")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        # Stands for a publisher that is not a channel: the test itself.
        self._test = _TestItself()
        self._known: WeakSet[object] = WeakSet()
        self._stopped: WeakSet[object] = WeakSet()

    def is_stopped(self, publisher: object) -> bool:
        """Return whether the queue takes nothing from this publisher. A new publisher is known from now on."""
        self.resume_if_low()
        publisher = publisher or self._test
        if publisher not in self._known:
            self._known.add(publisher)
            if limits.is_over(self._queue.settings, self._queue.ready):
                self._stopped.add(publisher)
        return publisher in self._stopped

    def stop_if_full(self) -> None:
        """Stop all known publishers if the ready messages exceed a limit. Called after more became ready."""
        if limits.is_over(self._queue.settings, self._queue.ready):
            self._stopped |= self._known

    def resume_if_low(self) -> None:
        """Let all publishers continue if the ready messages are low enough. Called before more may become ready."""
        if self._stopped and limits.is_well_below(self._queue.settings, self._queue.ready):
            self._stopped.clear()
