"""The ring of the last events, which assertions and reports read later. `recorder` shows it to a test.

The tap is the bound `append` of a list, so recording costs the hot path one tuple and nothing else. If a trace file is
written, the tap appends to the writer's list instead, and the writer passes events on once they are written. When many
events have gathered, they move to a bounded deque with plain data in place of their messages, because Python's garbage
collector does not need to visit plain data. Reading them turns that data into messages again.

A sentinel marks the start of the ring: once it is gone, an event has been dropped. A reader's position is the number
of events that were recorded before it.

A test reads while the loop's thread records and writes, so every reader takes the broker's lock. Only `tap`, `turned`,
`take_back` and `begin_anew` do not, because their callers hold it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from leveret.trace.events import MARKS, POSITIONS, RawEvent, Tap

if TYPE_CHECKING:
    from leveret.trace.writer import Writer

RecordLevel = Literal["off", "recent"]

_LEVELS: Final = get_args(RecordLevel)
# What a user probably wants who tries another level.
_KEEPING_ALL: Final = "to keep all events, use trace_dir=DIR or --leveret-trace-dir=DIR"
_BEGINNING: Final[RawEvent] = ("beginning",)
_FORGOTTEN: Final[RawEvent] = ("forgotten",)
# Up to this many of the newest events are kept as the core made them. Beyond, the oldest of them move in pieces of at
# least the second size: one piece takes a millisecond, and all of them would hold up every client for a long turn.
_FRESH_MAX: Final = 8192
_PIECE: Final = 1024
_MESSAGE_AT: Final[dict[object, int]] = {
    kind: places["message"] for kind, places in POSITIONS.items() if "message" in places
}

_VHOST_AT: Final[dict[object, int]] = {kind: places["vhost"] for kind, places in POSITIONS.items() if "vhost" in places}

# From a message to plain data, and back.
Packer = Callable[..., tuple[object, ...]]
Unpacker = Callable[..., object]


class EventRing:
    """The last `size` events at level "recent", and none at level "off". A writer, if there is one, keeps all."""

    __slots__ = (
        "_fresh",
        "_kept",
        "_lock",
        "_moved_count",
        "_pack",
        "_unpack",
        "level",
        "size",
        "tap",
        "writer",
    )

    def __init__(
        self,
        level: RecordLevel = "recent",
        size: int = 100_000,
        *,
        writer: Writer | None = None,
        pack: Packer | None = None,
        unpack: Unpacker | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """Prepare to record. `pack` turns a message into plain data and `unpack` turns it back; without, it is kept.

        `lock` is the broker's, which is reentrant.

        Raises ValueError if the level is unknown or `size` is below 1.
        """
        if level not in _LEVELS:
            raise ValueError(f"record={level!r} is unknown; expected {' or '.join(map(repr, _LEVELS))}; {_KEEPING_ALL}")
        if size < 1:
            raise ValueError(f"trace size {size} is below 1; give a positive number, or level 'off' to keep no events")
        self.level: Final = level
        self.size: Final = size
        self._lock: Final = nullcontext() if lock is None else lock
        self._pack: Final = pack
        self._unpack: Final = unpack
        # The first place is the sentinel's. Once it is gone, the event in that place no longer counts as kept, so that
        # `has_dropped` is exact.
        self._kept: Final[deque[RawEvent]] = deque((_BEGINNING,), maxlen=size + 1)
        # The newest events.
        self._fresh: Final[list[RawEvent]] = []
        # How many events have left `_fresh`.
        self._moved_count = 0
        # The value of `Hooks.tap`. It is None if nothing is recorded, so that the core does not even make the tuple.
        self.tap: Tap | None = self._fresh.append if level == "recent" else None
        if writer is not None:
            writer.hand_on = self._fresh.extend if level == "recent" else None
            self.tap = writer.tap
        # The writer of the trace file, or None if none is written.
        self.writer: Final = writer

    def take_back(self, raw: RawEvent | None) -> None:
        """Forget an event if it is the last one."""
        newest = self._fresh if self.writer is None else self.writer.pending
        if raw is not None and newest and newest[-1] is raw:
            newest.pop()

    def turned(self, timeout: float | None) -> float | None:
        """Tidy up after a turn of the loop, and return how long the loop may sleep, in seconds.

        `timeout` is how long it could sleep otherwise. Hot: once per turn.
        """
        if self.writer is not None:
            timeout = self.writer.turned(timeout)
        if len(self._fresh) > _FRESH_MAX:
            self._keep_oldest()
        return timeout

    def _keep_oldest(self) -> None:
        """Move the oldest of the fresh events to the deque."""
        count = len(self._fresh) - _FRESH_MAX + _PIECE
        oldest = self._fresh[:count]
        if self._pack is not None:
            oldest = _plain(oldest, self._pack)
        self._moved_count += count
        self._kept.extend(oldest)
        del self._fresh[:count]

    @property
    def is_on(self) -> bool:
        """Whether events are kept for reading."""
        return self.level == "recent"

    @property
    def path(self) -> str | None:
        """The path of the process's trace file, or None if none is written."""
        with self._lock:
            return None if self.writer is None else self.writer.open().path

    @property
    def has_dropped(self) -> bool:
        """Whether newer events have pushed out older ones since the beginning or the last `clear`."""
        with self._lock:
            self._catch_up()
            return self._kept[0] is not _BEGINNING or len(self._kept) + len(self._fresh) > self.size + 1

    @property
    def recorded_count(self) -> int:
        """How many events have been recorded so far, with those that are forgotten: the number of the newest one."""
        with self._lock:
            self._catch_up()
            return self._moved_count + len(self._fresh)

    def __len__(self) -> int:
        with self._lock:
            self._catch_up()
            return min(len(self._kept) - 1 + len(self._fresh), self.size)

    def clear(self) -> None:
        """Forget all events. From now on the record is complete again."""
        self._clear(_BEGINNING)

    def _clear(self, sentinel: RawEvent) -> None:
        with self._lock:
            self._catch_up()
            self._moved_count += len(self._fresh)
            self._fresh.clear()
            self._kept.clear()
            self._kept.append(sentinel)

    def begin_anew(self, past: list[RawEvent] | None = None, *, has_dropped: bool = False) -> None:
        """Forget all events, because the broker was reset and counts from 1 again, or goes back to an earlier state.

        `past` is what had happened by then, from `as_kept`; `has_dropped`, whether its oldest part is missing.
        """
        if self.writer is not None:
            self.writer.begin_anew()
        self._clear(_FORGOTTEN if has_dropped else _BEGINNING)
        if past is None or self.tap is None:
            return
        if self.writer is not None:
            for event in past if self._unpack is None else _whole(past, self._unpack):
                self.tap(event)
        else:
            self._moved_count += len(past[:-_FRESH_MAX])
            self._kept.extend(past[:-_FRESH_MAX])
            self._fresh.extend(past[-_FRESH_MAX:])

    def as_kept(self, whole: list[RawEvent]) -> list[RawEvent]:
        """Return events as this ring keeps them once the newest of them have come."""
        oldest, fresh = whole[:-_FRESH_MAX], whole[-_FRESH_MAX:]
        return (oldest if self._pack is None else _plain(oldest, self._pack)) + fresh

    def _catch_up(self) -> None:
        if self.writer is not None:
            self.writer.write()

    def raw(self) -> list[RawEvent]:
        """Return the recorded tuples, oldest first."""
        return self.newest(self.size)

    def newest(self, count: int) -> list[RawEvent]:
        """Return the last `count` tuples, or all if there are fewer, oldest first. The cost does not depend on all."""
        with self._lock:
            fresh, count = self._fresh, min(count, len(self))
            if count <= len(fresh):
                return fresh[len(fresh) - count :]
            kept = list(islice(reversed(self._kept), count - len(fresh)))
            kept.reverse()
            if self._unpack is not None:
                kept = _whole(kept, self._unpack)
            return kept + fresh

    def raw_after(self, count: int) -> list[RawEvent]:
        """Return the tuples recorded after the first `count`, oldest first, without those that were dropped."""
        with self._lock:
            return self.newest(max(0, self.recorded_count - count))


class VhostEvents:
    """The part of a recorder that belongs to one virtual host."""

    def __init__(self, recorder: EventRing, vhost: str) -> None:
        self._recorder = recorder
        self._vhost = vhost

    @property
    def is_on(self) -> bool:
        """Whether events are kept."""
        return self._recorder.is_on

    @property
    def size(self) -> int:
        """How many events of all virtual hosts are kept at most."""
        return self._recorder.size

    @property
    def has_dropped(self) -> bool:
        """Whether newer events have pushed out older ones."""
        return self._recorder.has_dropped

    def __len__(self) -> int:
        return len(self._recorder)

    def raw(self) -> list[RawEvent]:
        """Return the events of the virtual host, oldest first."""
        return self._own(self._recorder.raw())

    @property
    def recorded_count(self) -> int:
        """How many events of all virtual hosts have been recorded so far."""
        return self._recorder.recorded_count

    def raw_after(self, count: int) -> list[RawEvent]:
        """Return those that were recorded after the first `count` of all virtual hosts."""
        return self._own(self._recorder.raw_after(count))

    def _own(self, raw_events: list[RawEvent]) -> list[RawEvent]:
        return [raw for raw in raw_events if is_of(raw, self._vhost)]


def is_of(raw: RawEvent, vhost: str) -> bool:
    """Return whether an event happened in a virtual host, or marks the beginning or the end of a test."""
    at = _VHOST_AT.get(raw[0])
    return raw[0] in MARKS if at is None else raw[at] == vhost


# What a reader takes events from.
KeptEvents = EventRing | VhostEvents


def _whole(events: list[RawEvent], unpack: Unpacker) -> list[RawEvent]:
    """Turn plain data back into messages; events of one message share it."""
    made: dict[object, object] = {}
    whole = []
    for raw in events:
        at = _MESSAGE_AT.get(raw[0])
        if at is not None and type(raw[at]) is tuple:
            packed = cast("tuple[object, ...]", raw[at])
            if packed not in made:
                made[packed] = unpack(*packed)
            raw = (*raw[:at], made[packed], *raw[at + 1 :])
        whole.append(raw)
    return whole


def _plain(events: list[RawEvent], pack: Packer) -> list[RawEvent]:
    """Replace the messages of events by plain data; events of one message share it. Hot: a loop over events."""
    packed: dict[object, tuple[object, ...]] = {}
    places, plain = _MESSAGE_AT, []
    for raw in events:
        at = places.get(raw[0])
        if at is not None:
            message = raw[at]
            data = packed.get(message)
            if data is None:
                data = packed[message] = pack(message)
            raw = (*raw[:at], data, *raw[at + 1 :])
        plain.append(raw)
    return plain
