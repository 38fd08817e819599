"""The order of ready entries: which one is next, and where a returned one goes.

A message that was never handed out waits as a tuple of atomic values, whose layout only this module knows. The garbage
collector stops tracking such tuples, so a long queue costs it nothing. A message that waits in many queues is one
tuple; the number of each copy is kept beside it, in eight bytes. `pop` makes the entry. Returned messages stay entries,
and so do messages that bring failed deliveries along.

These classes know no consumers, limits or time.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Final, TypeAlias, cast

from leveret.core.model.message import Head, Message, QueueEntry

# Message id, body, time of enqueueing, head, time of expiry.
WaitingMessage = tuple[int, bytes, int, Head, int | None]
_BODY: Final = 1
_ENQUEUED_AT: Final = 2
_EXPIRES_AT: Final = 4

# The numbers of copies that were taken out are deleted once there are this many and they are half of all.
_TRIM: Final = 512
# With two classes, age counts for one of so many entries.
_TURNS: Final = 3


class ReadyFifo:
    """First in, first out; a returned entry goes back to its place by position (classic queues).

    Returned entries are older than all entries that were never taken out. So they are kept in front, in a list of their
    own.
    """

    __slots__ = (
        "_arrived",
        "_copies",
        "_counts_properties",
        "_first",
        "_priority",
        "_returned",
        "count",
        "has_deadlines",
        "size_bytes",
    )

    def __init__(self, *, priority: int = 0, counts_properties: bool = False) -> None:
        """Give all entries one priority; `counts_properties` counts properties towards a limit in bytes."""
        self._priority = priority
        self._counts_properties = counts_properties
        self._returned: deque[QueueEntry] = deque()
        self._arrived: deque[WaitingMessage | QueueEntry] = deque()
        # The numbers of the copies in `_arrived`, from index `_first` on.
        self._copies: array[int] = array("q")
        self._first = 0
        # How many entries wait. A field, because it is read for every message.
        self.count = 0
        # True if any entry has a deadline; may stay true after the last such entry has gone.
        self.has_deadlines = False
        # What all entries count towards a limit in bytes.
        self.size_bytes = 0

    def append_message(self, message: Message, copy: int, now: int) -> None:
        """Add an arriving message. Hot: once per message that waits."""
        waiting = message.waiting
        if waiting is None or waiting[_ENQUEUED_AT] != now:
            # One tuple for all queues.
            message.waiting = waiting = (message.id, message.body, now, message.head, None)
        self._arrived.append(waiting)
        self._copies.append(copy)
        self.count += 1
        self.size_bytes += self._size_of(message) if self._counts_properties else len(message.body)

    def append(self, entry: QueueEntry) -> None:
        """Add an arriving entry."""
        message = entry.message
        item: WaitingMessage | QueueEntry = entry
        if not (entry.acquired_count or entry.delivery_count or entry.redelivered):
            item = (message.id, message.body, entry.enqueued_at, message.head, entry.expires_at)
        self._arrived.append(item)
        self._copies.append(entry.copy)
        self._count_in(entry)

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Put returned entries back in their places."""
        returning = sorted(entries, key=_position)
        if not returning:
            return
        # All entries older than the youngest returned one are at the front: merge that part only.
        returned = self._returned
        youngest = returning[-1].position
        older = []
        while returned and returned[0].position < youngest:
            older.append(returned.popleft())
        returned.extendleft(sorted([*older, *returning], key=_position, reverse=True))
        for entry in returning:
            self._count_in(entry)

    def pass_by(self) -> None:
        """Count nothing: what goes straight to a consumer does not affect the order."""

    def put_behind(self, entry: QueueEntry) -> None:
        """Put a returned entry behind those returned before, ignoring its position."""
        self._returned.append(entry)
        self._count_in(entry)

    def pop(self) -> QueueEntry:
        """Take the oldest entry out. Hot: once per message that waited."""
        if self._returned:
            entry = self._returned.popleft()
        else:
            item = self._arrived.popleft()
            first = self._first
            copy = self._copies[first]
            self._first = first + 1
            if first >= _TRIM and 2 * first >= len(self._copies):
                del self._copies[: first + 1]
                self._first = 0
            entry = self._entry(item, copy)
        self.count -= 1
        message = entry.message
        self.size_bytes -= self._size_of(message) if self._counts_properties else len(message.body)
        if not self.count:
            self.has_deadlines = False
        return entry

    def pop_unseen(self, limit: int) -> tuple[list[WaitingMessage], Sequence[int]]:
        """Take up to `limit` of the oldest messages out, as tuples with their copies.

        It stops at the first entry that was ever handed out. Hot: once per run of messages that waited.
        """
        if self._returned:
            return [], ()
        pop_oldest = self._arrived.popleft
        taken = [pop_oldest() for _ in range(min(limit, self.count))]
        if QueueEntry in map(type, taken):
            end = next(index for index, item in enumerate(taken) if isinstance(item, QueueEntry))
            self._arrived.extendleft(reversed(taken[end:]))
            del taken[end:]
        unseen = cast("list[WaitingMessage]", taken)
        first = self._first
        self._first = end_of_run = first + len(unseen)
        copies = self._copies[first:end_of_run]
        if end_of_run > _TRIM and 2 * end_of_run >= len(self._copies):
            del self._copies[:end_of_run]
            self._first = 0
        self.count -= len(unseen)
        self.size_bytes -= sum([len(item[_BODY]) for item in unseen])
        if not self.count:
            self.has_deadlines = False
        return unseen, copies

    @property
    def head_position(self) -> int:
        """The position of the entry that `pop` takes."""
        item = self._returned[0] if self._returned else self._arrived[0]
        return item.position if isinstance(item, QueueEntry) else self._copies[self._first]

    def next_deadline(self) -> int | None:
        """Return the deadline of the oldest entry: messages expire only at the head."""
        if not self.has_deadlines:
            return None
        if self._returned:
            return self._returned[0].expires_at
        item = self._arrived[0]
        return item.expires_at if isinstance(item, QueueEntry) else item[_EXPIRES_AT]

    def pop_expired(self, now: int) -> list[QueueEntry]:
        """Take the oldest entry out if it is past its deadline."""
        deadline = self.next_deadline()
        return [self.pop()] if deadline is not None and deadline <= now else []

    head_deadline = next_deadline

    def take_out(self, wanted: Callable[[QueueEntry], bool]) -> list[QueueEntry]:
        """Take out all wanted entries, in any place."""
        returned, arrived = list(self._returned), list(self._arrived_entries())
        taken = [entry for entry in (*returned, *arrived) if wanted(entry)]
        gone = {entry.copy: entry for entry in taken}
        self.clear()
        for entries, keep in ((returned, self.put_behind), (arrived, self.append)):
            for entry in entries:
                if entry.copy not in gone:
                    keep(entry)
        return taken

    def clear(self) -> list[QueueEntry]:
        """Take everything out."""
        entries = list(self)
        self._returned.clear()
        self._arrived.clear()
        del self._copies[:]
        self._first = self.count = self.size_bytes = 0
        self.has_deadlines = False
        return entries

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[QueueEntry]:
        return chain(self._returned, self._arrived_entries())

    def _arrived_entries(self) -> Iterator[QueueEntry]:
        copies = self._copies
        for index, item in enumerate(self._arrived, self._first):
            yield self._entry(item, copies[index])

    def _entry(self, item: WaitingMessage | QueueEntry, copy: int) -> QueueEntry:
        # Hot: once per message that waited.
        if isinstance(item, QueueEntry):
            return item
        message_id, body, enqueued_at, head, expires_at = item
        entry = QueueEntry(Message.from_head(message_id, head, body), copy, copy, enqueued_at)
        entry.expires_at = expires_at
        entry.priority = self._priority
        return entry

    def _size_of(self, message: Message) -> int:
        size = len(message.body)
        return size + message.counted_properties_size if self._counts_properties else size

    def _count_in(self, entry: QueueEntry) -> None:
        self.count += 1
        self.size_bytes += self._size_of(entry.message)
        if entry.expires_at is not None:
            self.has_deadlines = True


class ReadyByPriority:
    """Highest priority first, first in, first out within one; a returned entry goes back within its priority.

    A level is made for its first entry: a quorum queue has 32, and hardly any is used.
    """

    __slots__ = ("_counts_properties", "_levels", "_parts", "count", "has_deadlines")

    def __init__(self, *, counts_properties: bool = False) -> None:
        """Make the lowest level, 0; `counts_properties` counts properties towards a limit in bytes."""
        self._counts_properties = counts_properties
        self._levels: dict[int, ReadyFifo] = {}
        # What comes first in front: the levels from the highest down.
        self._parts: list[ReadyFifo] = []
        self._new_level(0)
        self.count = 0
        self.has_deadlines = False

    @property
    def size_bytes(self) -> int:
        """What all entries count towards a limit in bytes."""
        return sum(part.size_bytes for part in self._parts)

    def append_message(self, message: Message, copy: int, now: int) -> None:
        """Add an arriving message to the lowest level."""
        self._parts[-1].append_message(message, copy, now)
        self.count += 1

    def append(self, entry: QueueEntry) -> None:
        """Add an arriving entry to its level."""
        self._level_of(entry).append(entry)
        self._count_in(entry)

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Put returned entries back in their places."""
        for entry in entries:
            self._level_of(entry).put_back([entry])
            self._count_in(entry)

    def pass_by(self) -> None:
        """Count nothing: what goes straight to a consumer does not affect the order."""

    def pop(self) -> QueueEntry:
        """Take the next entry out."""
        entry = self._first_part().pop()
        self.count -= 1
        self.has_deadlines = self.has_deadlines and self.count > 0
        return entry

    def head_deadline(self) -> int | None:
        """Return the head's deadline: a lower entry behind a live higher one does not expire (seen on 4.3)."""
        return self._first_part().next_deadline()

    next_deadline = head_deadline

    def pop_expired(self, now: int) -> list[QueueEntry]:
        """Take the head out if it is past its deadline."""
        deadline = self.head_deadline()
        return [self.pop()] if deadline is not None and deadline <= now else []

    def take_out(self, wanted: Callable[[QueueEntry], bool]) -> list[QueueEntry]:
        """Take out all wanted entries, in any place."""
        return self._counted_out([entry for part in self._parts for entry in part.take_out(wanted)])

    def clear(self) -> list[QueueEntry]:
        """Take everything out."""
        return self._counted_out([entry for part in self._parts for entry in part.clear()])

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[QueueEntry]:
        return chain.from_iterable(self._parts)

    def _count_in(self, entry: QueueEntry) -> None:
        self.count += 1
        self.has_deadlines = self.has_deadlines or entry.expires_at is not None

    def _counted_out(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        self.count -= len(entries)
        return entries

    def _level_of(self, entry: QueueEntry) -> ReadyFifo:
        level = self._levels.get(entry.priority)
        return self._new_level(entry.priority) if level is None else level

    def _new_level(self, priority: int) -> ReadyFifo:
        level = ReadyFifo(priority=priority, counts_properties=self._counts_properties)
        lower_count = sum(other < priority for other in self._levels)
        self._parts.insert(len(self._parts) - lower_count, level)
        self._levels[priority] = level
        return level

    def _first_part(self) -> ReadyFifo:
        for part in self._parts:
            if part.count:
                return part
        return self._parts[-1]


class ReadyReturnsFirst(ReadyByPriority):
    """Returned entries first, in order of their return; then those that arrived, by priority (quorum queues).

    Only the age of the next entry is checked (rabbit_fifo, seen on 3.10 and 4.0).
    """

    __slots__ = ("_returned",)

    def __init__(self, *, counts_properties: bool = False) -> None:
        super().__init__(counts_properties=counts_properties)
        self._returned = ReadyFifo(counts_properties=counts_properties)
        self._parts.insert(0, self._returned)

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Add returned entries behind those returned before; they lose their priority."""
        for entry in entries:
            self._returned.put_behind(entry)
            self._count_in(entry)


class ReadyInTwoClasses(ReadyReturnsFirst):
    """High before normal, but every third time the older of the two that are first (rabbit_fifo_q, seen on 4.0)."""

    __slots__ = ("_turn",)

    def __init__(self, *, counts_properties: bool = False) -> None:
        super().__init__(counts_properties=counts_properties)
        self._new_level(1)
        # How many entries that arrived have left, modulo 3. Age counts for the third.
        self._turn = 0

    def pop(self) -> QueueEntry:
        """Take out the first returned entry, else the one whose turn it is."""
        takes_turn = not self._returned.count
        entry = super().pop()
        if takes_turn:
            self.pass_by()
        return entry

    def pass_by(self) -> None:
        """Count an entry that goes straight to a consumer: it takes a turn too."""
        self._turn = (self._turn + 1) % _TURNS

    def clear(self) -> list[QueueEntry]:
        """Take everything out; the turns begin anew."""
        entries = list(self)
        super().clear()
        self._turn = 0
        return entries

    def __iter__(self) -> Iterator[QueueEntry]:
        returned, high, normal = (deque(part) for part in self._parts)
        yield from returned
        for turn in count(self._turn):
            if not (high and normal):
                break
            is_high = _takes_high(turn % _TURNS, high[0].position, normal[0].position)
            yield (high if is_high else normal).popleft()
        yield from (*high, *normal)

    def _first_part(self) -> ReadyFifo:
        returned, high, normal = self._parts
        if returned.count or not (high.count and normal.count):
            return super()._first_part()
        return high if _takes_high(self._turn, high.head_position, normal.head_position) else normal


def _takes_high(turn: int, high_position: int, normal_position: int) -> bool:
    return turn < _TURNS - 1 or high_position < normal_position


class ReadyReturnsThenLevels(ReadyReturnsFirst):
    """Returned entries first, then by level; the age of the first of each level is checked (seen on 4.3)."""

    __slots__ = ()

    def next_deadline(self) -> int | None:
        """Return the nearest deadline of the first returned entry and of each level's first."""
        deadlines = [part.next_deadline() for part in self._parts]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def pop_expired(self, now: int) -> list[QueueEntry]:
        """Take out the first returned entry and the first of every level if they are past their deadlines."""
        return self._counted_out([entry for part in self._parts for entry in part.pop_expired(now)])


# The ready entries of a queue, next first.
Ready: TypeAlias = ReadyFifo | ReadyByPriority


def _position(entry: QueueEntry) -> int:
    return entry.position
