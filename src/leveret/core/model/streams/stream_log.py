"""A stream's log: entries in order of offset, in segments. Only whole segments are dropped, oldest first.

It models RabbitMQ's log (osiris) as seen on 4.0 and 4.3. A segment takes entries until its size has reached the
maximum, and the next entry opens a new segment. Every segment but the first begins with a record of the broker, which
uses up one offset. Retention runs when a segment is opened, when the limits change and at a restart, and at no other
time. The newest segment always stays. A chunk, the unit in which RabbitMQ writes and filters, is always one message
here. RabbitMQ does the same when a publisher waits for each confirm, so a test can rely on it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from leveret.core.model.message import Message, QueueEntry

DEFAULT_SEGMENT_BYTES: Final = 500_000_000
# The overhead of a segment and of a message. With these values, small messages fill a segment as on 4.3.
_SEGMENT_HEADER_BYTES: Final = 8
_CHUNK_OVERHEAD_BYTES: Final = 150


def stored_size(message: Message) -> int:
    """Return how many bytes a message takes in the log, with RabbitMQ's overhead."""
    address = len(message.exchange) + len(message.routing_key)
    return len(message.body) + len(message.properties_octets) + address + _CHUNK_OVERHEAD_BYTES


class _Segment:
    __slots__ = ("entries", "first_offset", "size_bytes")

    def __init__(self, first_offset: int) -> None:
        # The offset of its first message.
        self.first_offset = first_offset
        self.entries: list[QueueEntry] = []
        self.size_bytes = _SEGMENT_HEADER_BYTES

    @property
    def next_offset(self) -> int:
        return self.first_offset + len(self.entries)


class StreamLog:
    """The entries of one stream; an entry's position is its offset."""

    __slots__ = ("_count", "_segments")

    def __init__(self) -> None:
        # Oldest first. There is at least one segment, and only the last may be empty.
        self._segments = [_Segment(0)]
        self._count = 0

    def __len__(self) -> int:
        """Return how many messages it holds."""
        return self._count

    def __iter__(self) -> Iterator[QueueEntry]:
        """Iterate over its entries, oldest first."""
        for segment in self._segments:
            yield from segment.entries

    @property
    def next_offset(self) -> int:
        """The offset of the next message, unless that message opens a segment."""
        return self._segments[-1].next_offset

    def is_segment_full(self, max_bytes: int) -> bool:
        """Return whether the next message has to open a new segment."""
        newest = self._segments[-1]
        return bool(newest.entries) and newest.size_bytes >= max_bytes

    def open_segment(self) -> None:
        """Begin a new segment; the broker's record at its start uses up one offset."""
        self._segments.append(_Segment(self.next_offset + 1))

    def append(self, entry: QueueEntry) -> None:
        """Add an entry, whose position must be `next_offset`."""
        newest = self._segments[-1]
        assert entry.position == newest.next_offset, f"offset {entry.position} does not follow"
        newest.entries.append(entry)
        newest.size_bytes += stored_size(entry.message)
        self._count += 1

    def at(self, offset: int) -> QueueEntry | None:
        """Return the first entry at this offset or after it, None beyond the end. Hot: once per delivery."""
        segments = self._segments
        if offset >= segments[-1].next_offset:
            return None
        index = max(0, bisect_right(segments, offset, key=lambda segment: segment.first_offset) - 1)
        segment = segments[index]
        position = max(0, offset - segment.first_offset)
        # The offset between two segments belongs to the broker's record.
        return segment.entries[position] if position < len(segment.entries) else segments[index + 1].entries[0]

    def first_since(self, at_ms: int) -> QueueEntry | None:
        """Return the first entry written at `at_ms` (an instant in milliseconds) or later, None if there is none."""
        for segment in self._segments:
            if segment.entries and _written_ms(segment.entries[-1]) >= at_ms:
                position = bisect_right(segment.entries, at_ms - 1, key=_written_ms)
                return segment.entries[position]
        return None

    def last(self) -> QueueEntry | None:
        """Return the newest entry, None if the log is empty."""
        newest = self._segments[-1]
        return newest.entries[-1] if newest.entries else None

    def drop_beyond(self, max_bytes: int) -> list[QueueEntry]:
        """Drop the oldest segments so that the rest takes at most `max_bytes`; return the dropped entries."""
        left = max_bytes
        for index in range(len(self._segments) - 1, -1, -1):
            left -= self._segments[index].size_bytes
            if left < 0 and index < len(self._segments) - 1:
                return self._drop_segments(index + 1)
        return []

    def drop_before(self, at_ms: int) -> list[QueueEntry]:
        """Drop the oldest segments whose last entry was written before this instant; return the dropped entries."""
        count = 0
        while count < len(self._segments) - 1 and _written_ms(self._segments[count].entries[-1]) < at_ms:
            count += 1
        return self._drop_segments(count)

    def clear(self) -> list[QueueEntry]:
        """Drop everything; return the dropped entries."""
        forgotten = list(self)
        self._segments = [_Segment(self.next_offset)]
        self._count = 0
        return forgotten

    def _drop_segments(self, count: int) -> list[QueueEntry]:
        dropped = [entry for segment in self._segments[:count] for entry in segment.entries]
        del self._segments[:count]
        self._count -= len(dropped)
        return dropped


def _written_ms(entry: QueueEntry) -> int:
    return entry.enqueued_at // 1000
