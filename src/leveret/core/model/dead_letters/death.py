"""A death, and the history of a message's deaths.

A chain of dead letters makes a longer history at each hop. To keep a hop as cheap late in the chain as at its start,
histories share one log that only grows at its end. A history is the first part of such a log. A message that branches
off, because another letter has already continued the log, copies its part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from leveret.core.wire.values import Table

REJECTED: Final = "rejected"


class Death(NamedTuple):
    """One entry of x-death: all deaths in the same queue for the same reason."""

    queue: str
    reason: str
    death_count: int
    # The time of the first death; later ones only raise the count (seen on 4.3).
    time_s: int
    exchange: str
    routing_keys: tuple[str, ...]
    original_expiration: str | None
    # 3.x only: whether the fields are sorted by name, because the entry was not the first or was updated.
    is_sorted: bool = False
    # 3.x only: the entry as a client published it; fields that it lacked are not added.
    published: Table | None = None
    # Whether the message was published with an x-death of its own.
    has_published_x_death: bool = False


class History:
    """The deaths of a message, newest first. It is immutable."""

    __slots__ = ("_indexes", "_length", "_log", "_reasons", "_rejected_at")

    def __init__(self, log: list[Death], indexes: dict[tuple[str, str], int], reasons: dict[str, None]) -> None:
        # The deaths, oldest first. Those from `_length` on belong to other messages.
        self._log = log
        self._length = len(log)
        # The newest index in the log by queue and reason, and every reason in it.
        self._indexes = indexes
        self._reasons = reasons
        # The index of the newest rejection, -1 if there is none.
        self._rejected_at = -1

    @classmethod
    def from_deaths(cls, deaths: Iterable[Death]) -> History:
        """Return the history of these deaths, newest first."""
        history = NO_DEATHS
        for death in reversed(list(deaths)):
            history = history.with_newest(death)
        return history

    def with_newest(self, death: Death) -> History:
        """Return the history with one more death in front."""
        log, indexes, reasons = self._log, self._indexes, self._reasons
        if not self._length or self._length < len(log):
            log = log[: self._length]
            indexes = {key: index for key, index in indexes.items() if index < self._length}
            reasons = dict(reasons)
        indexes[death.queue, death.reason] = len(log)
        reasons[death.reason] = None
        log.append(death)
        longer = History(log, indexes, reasons)
        longer._rejected_at = self._length if death.reason == REJECTED else self._rejected_at
        return longer

    def find(self, queue: str, reason: str) -> Death | None:
        """Return the newest death in this queue for this reason, or None."""
        index = self._index(queue, reason)
        return None if index < 0 else self._log[index]

    def has_died_unrejected(self, queue: str) -> bool:
        """Return whether a message with this history died in the queue and was not rejected since."""
        return any(self._index(queue, reason) > self._rejected_at for reason in self._reasons)

    def _index(self, queue: str, reason: str) -> int:
        index = self._indexes.get((queue, reason), -1)
        return index if index < self._length else -1

    @property
    def newest(self) -> Death:
        """The last death. There must be one."""
        return self._log[self._length - 1]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Death]:
        return reversed(self._log[: self._length])


NO_DEATHS: Final = History([], {}, {})
