"""The order behind a queue: which waiting entry is next, and where a returned one goes.

Only these classes know how waiting entries are kept. They know no consumers, limits or time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

from leveret.model.message import QueueEntry


class Ready(Protocol):
    """What waits in a queue, next first."""

    @property
    def size_bytes(self) -> int:
        """What all waiting entries count towards a limit in bytes."""

    def append(self, entry: QueueEntry) -> None:
        """Add an arriving entry."""

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Add returned entries, given in the order of their return."""

    def head(self) -> QueueEntry:
        """The next entry; raises IndexError when empty."""

    def heads(self) -> list[QueueEntry]:
        """The entries whose age is looked at: the head, or the head of every level."""

    def pop(self) -> QueueEntry:
        """Take the next entry out; raises IndexError when empty."""

    def remove(self, entry: QueueEntry) -> None:
        """Take one of `heads()` out."""

    def clear(self) -> list[QueueEntry]:
        """Take everything out."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[QueueEntry]: ...


class ReadyFifo:
    """First in, first out; a returned entry goes back to its place by position (classic queues)."""

    __slots__ = ("_entries", "size_bytes")

    def __init__(self) -> None:
        self._entries: deque[QueueEntry] = deque()
        self.size_bytes = 0

    def append(self, entry: QueueEntry) -> None:
        """Add an arriving entry."""
        self._entries.append(entry)
        self.size_bytes += entry.size_bytes

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Put returned entries where they came from."""
        returned = sorted(entries, key=_position)
        if not returned:
            return
        # Everything older than the youngest returned entry stands at the front: merge that part only.
        waiting = self._entries
        youngest = returned[-1].position
        older = []
        while waiting and waiting[0].position < youngest:
            older.append(waiting.popleft())
        waiting.extendleft(sorted([*older, *returned], key=_position, reverse=True))
        self.size_bytes += sum(entry.size_bytes for entry in returned)

    def head(self) -> QueueEntry:
        """The oldest entry."""
        return self._entries[0]

    def heads(self) -> list[QueueEntry]:
        """The oldest entry alone: messages expire at the head only."""
        return [self._entries[0]] if self._entries else []

    level_heads = heads

    def pop(self) -> QueueEntry:
        """Take the oldest entry out."""
        entry = self._entries.popleft()
        self.size_bytes -= entry.size_bytes
        return entry

    def remove(self, entry: QueueEntry) -> None:
        """Take the head out."""
        assert self._entries[0] is entry
        self.pop()

    def clear(self) -> list[QueueEntry]:
        """Take everything out."""
        entries = list(self._entries)
        self._entries.clear()
        self.size_bytes = 0
        return entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueueEntry]:
        return iter(self._entries)


class ReadyByPriority:
    """Highest priority first, first in, first out within one; a returned entry goes back within its priority."""

    __slots__ = ("_count", "_levels")

    def __init__(self, level_count: int) -> None:
        # Highest first, so that walking it is walking the queue.
        self._levels = [ReadyFifo() for _ in range(level_count)]
        self._count = 0

    @property
    def size_bytes(self) -> int:
        """What all waiting entries count towards a limit in bytes."""
        return sum(level.size_bytes for level in self._levels)

    def append(self, entry: QueueEntry) -> None:
        """Add an arriving entry to its level."""
        self._level_of(entry).append(entry)
        self._count += 1

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Put returned entries where they came from."""
        for entry in entries:
            self._level_of(entry).put_back([entry])
            self._count += 1

    def head(self) -> QueueEntry:
        """The oldest entry of the highest level that has one."""
        return self._first_level().head()

    def heads(self) -> list[QueueEntry]:
        """The head alone: a low entry behind a live high one does not expire (seen on 4.3)."""
        return [self.head()] if self._count else []

    def level_heads(self) -> list[QueueEntry]:
        """The oldest entry of every level."""
        return [level.head() for level in self._levels if level]

    def pop(self) -> QueueEntry:
        """Take the head out."""
        entry = self._first_level().pop()
        self._count -= 1
        return entry

    def remove(self, entry: QueueEntry) -> None:
        """Take the head of a level out."""
        self._level_of(entry).remove(entry)
        self._count -= 1

    def clear(self) -> list[QueueEntry]:
        """Take everything out."""
        self._count = 0
        return [entry for level in self._levels for entry in level.clear()]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[QueueEntry]:
        return (entry for level in self._levels for entry in level)

    def _level_of(self, entry: QueueEntry) -> ReadyFifo:
        return self._levels[len(self._levels) - 1 - entry.priority]

    def _first_level(self) -> ReadyFifo:
        return next((level for level in self._levels if level), self._levels[-1])


class ReadyReturnsFirst:
    """Returned entries first, in order of their return; then by priority, or in order of arrival (quorum queues)."""

    __slots__ = ("_arrived", "_returned")

    def __init__(self, arrived: ReadyFifo | ReadyByPriority) -> None:
        self._returned = ReadyFifo()
        self._arrived = arrived

    @property
    def size_bytes(self) -> int:
        """What all waiting entries count towards a limit in bytes."""
        return self._returned.size_bytes + self._arrived.size_bytes

    def append(self, entry: QueueEntry) -> None:
        """Add an arriving entry."""
        self._arrived.append(entry)

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Add returned entries behind those returned before; their priority means nothing any more."""
        for entry in entries:
            entry.is_returned = True
            self._returned.append(entry)

    def head(self) -> QueueEntry:
        """The first returned entry, else the first that arrived."""
        return self._next().head()

    def heads(self) -> list[QueueEntry]:
        """The first returned one and the first of every level: all of them may expire (seen on 4.3)."""
        return [*self._returned.heads(), *self._arrived.level_heads()]

    def pop(self) -> QueueEntry:
        """Take the head out."""
        return self._next().pop()

    def remove(self, entry: QueueEntry) -> None:
        """Take one of the heads out."""
        (self._returned if entry.is_returned else self._arrived).remove(entry)

    def clear(self) -> list[QueueEntry]:
        """Take everything out."""
        return self._returned.clear() + self._arrived.clear()

    def __len__(self) -> int:
        return len(self._returned) + len(self._arrived)

    def __iter__(self) -> Iterator[QueueEntry]:
        return chain(self._returned, self._arrived)

    def _next(self) -> ReadyFifo | ReadyByPriority:
        return self._returned if self._returned else self._arrived


def _position(entry: QueueEntry) -> int:
    return entry.position
