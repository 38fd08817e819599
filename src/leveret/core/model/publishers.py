"""Who may publish to a quorum queue with overflow reject-publish.

Such a queue refuses publishers, not messages: when it is over a limit, it tells every channel that has published to it
to stop, and tells them to go on once it has come down to 80 % of its limits (rabbit_fifo; seen on 4.3). A channel that
comes in between is not stopped, and what comes without a channel, a dead letter, is always taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from leveret.core.model import limits

if TYPE_CHECKING:
    from leveret.core.model.queue import Queue


class _Nobody:
    """A publisher without a name."""


class Publishers:
    """Those who have published to one queue, and who of them has been stopped."""

    __slots__ = ("_known", "_nobody", "_queue", "_stopped")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        # Stands for publishers that are no channel: the test itself.
        self._nobody = _Nobody()
        self._known: WeakSet[object] = WeakSet()
        self._stopped: WeakSet[object] = WeakSet()

    def is_stopped(self, publisher: object) -> bool:
        """Whether the queue takes nothing from this publisher; one that is new here is known from now on."""
        self.let_go_on()
        publisher = publisher or self._nobody
        if publisher not in self._known:
            self._known.add(publisher)
            if limits.is_over(self._queue.settings, self._queue.ready):
                self._stopped.add(publisher)
        return publisher in self._stopped

    def stop_if_full(self) -> None:
        """More is ready than before: everybody known has to stop when that is too much."""
        if limits.is_over(self._queue.settings, self._queue.ready):
            self._stopped |= self._known

    def let_go_on(self) -> None:
        """More may become ready: until now it was so little, perhaps, that everybody could go on."""
        if self._stopped and limits.is_well_below(self._queue.settings, self._queue.ready):
            self._stopped.clear()
