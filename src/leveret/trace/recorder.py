"""The recorder: the tap that keeps what happened, so that assertions and reports can ask later.

The tap is the bound `append` of a list, so recording costs the hot path the tuple and nothing else; where a trace file
is written it is that of the writer's list, which hands on what was written. When many events have come together they
move to a bounded deque, with plain data in place of their messages, which Python's garbage collector need not look at;
who asks for them gets messages again.

That something fell out at the far end is known without counting: a mark stands before the first event, and whatever
pushes an event out has pushed out the mark first. How far a reader has come is known the same way, by the last tuple it
saw; those are left as they are.

It takes no lock: whoever reads holds the broker's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Final, Literal, Unpack, cast, get_args

from leveret.errors import unknown
from leveret.trace.events import KINDS, POSITIONS, Event, EventKind, RawEvent, Tap

if TYPE_CHECKING:
    from leveret.trace.keywords import EventFields
    from leveret.trace.writer import Writer

RecordLevel = Literal["off", "ring"]

_LEVELS: Final = get_args(RecordLevel)
# What else somebody may want.
_HINTS: Final[dict[str, str]] = {"full": "; for all of it, trace_dir=DIR or --leveret-trace-dir=DIR"}
_BEGINNING: Final[RawEvent] = ("beginning",)
# So many events are kept as they were told.
_FRESH_MAX: Final = 8192
_MESSAGE_AT: Final[dict[object, int]] = {
    kind: places["message"] for kind, places in POSITIONS.items() if "message" in places
}

# A message as plain data, and the way back.
Packer = Callable[..., tuple[object, ...]]
Unpacker = Callable[..., object]


class Recorder:
    """This recorder keeps the last `size` events at level "ring" and nothing at level "off"; a writer keeps all."""

    __slots__ = ("_fresh", "_handed_out", "_kept", "_pack", "_unpack", "level", "size", "tap", "writer")

    def __init__(
        self,
        level: RecordLevel = "ring",
        size: int = 100_000,
        *,
        writer: Writer | None = None,
        pack: Packer | None = None,
        unpack: Unpacker | None = None,
    ) -> None:
        """Without `pack` and `unpack` messages are kept as they were told."""
        if level not in _LEVELS:
            raise ValueError(f"trace level {level!r} is none of {', '.join(_LEVELS)}{_HINTS.get(level, '')}")
        if size < 1:
            raise ValueError(f"a trace of {size} events keeps nothing; use level 'off' for that")
        self.level: Final = level
        self.size: Final = size
        self._pack: Final = pack
        self._unpack: Final = unpack
        # The first place is the mark's. What stands there once the mark is gone is no longer counted as kept, so that
        # "dropped" is said exactly when something was.
        self._kept: Final[deque[RawEvent]] = deque((_BEGINNING,), maxlen=size + 1)
        # What came last.
        self._fresh: Final[list[RawEvent]] = []
        # Of those, what somebody has seen last, by its place.
        self._handed_out: Final[dict[int, RawEvent]] = {}
        # What goes into `Hooks.tap`: None when nothing is recorded, so that the core does not even make the tuple.
        self.tap: Tap | None = self._fresh.append if level == "ring" else None
        if writer is not None:
            writer.hand_on = self._fresh.extend if level == "ring" else None
            self.tap = writer.tap
        # Of the trace file, None where none is written.
        self.writer: Final = writer

    def turned(self, timeout: float | None) -> float | None:
        """The loop has done what there was to do and may sleep so long: tidy up; how long it may sleep now.

        OSError when the trace file cannot be written. Hot: once per turn.
        """
        if self.writer is not None:
            timeout = self.writer.turned(timeout)
        if len(self._fresh) > _FRESH_MAX:
            self._keep_fresh()
        return timeout

    def _keep_fresh(self) -> None:
        fresh, pack = self._fresh[-self.size - 1 :], self._pack
        first = len(self._fresh) - len(fresh)
        if pack is not None:
            fresh = _plain(fresh, pack)
        for place, raw in self._handed_out.items():
            if place >= first:
                fresh[place - first] = raw
        self._handed_out.clear()
        self._fresh.clear()
        self._kept.extend(fresh)

    @property
    def is_on(self) -> bool:
        """Whether anything is kept to be asked for."""
        return self.level == "ring"

    @property
    def path(self) -> str | None:
        """The trace file of the process, None where none is written; compressed when the process or the run ends."""
        return None if self.writer is None else self.writer.open().path

    @property
    def has_dropped(self) -> bool:
        """Whether events were pushed out by newer ones since the beginning or the last `clear`."""
        self._catch_up()
        return self._kept[0] is not _BEGINNING or len(self._kept) + len(self._fresh) > self.size + 1

    def __len__(self) -> int:
        self._catch_up()
        return min(len(self._kept) - 1 + len(self._fresh), self.size)

    def clear(self) -> None:
        """Forget what was recorded; what happens from here on is complete again."""
        self._catch_up()
        self._fresh.clear()
        self._handed_out.clear()
        self._kept.clear()
        self._kept.append(_BEGINNING)

    def begin_anew(self) -> None:
        """The broker was reset: forget what was recorded; it numbers from 1 again."""
        if self.writer is not None:
            self.writer.begin_anew()
        self.clear()

    def _catch_up(self) -> None:
        if self.writer is not None:
            self.writer.write()

    def raw(self) -> list[RawEvent]:
        """The recorded tuples, oldest first."""
        return self._newest(len(self))

    def raw_after(self, last_seen: RawEvent | None) -> list[RawEvent]:
        """The tuples recorded after the one given, oldest first; all of them for None or for one that is gone."""
        count = len(self)
        newest_first = chain(reversed(self._fresh), reversed(self._kept))
        seen = takewhile(lambda raw: raw is not last_seen, islice(newest_first, count))
        return self._newest(sum(1 for _ in seen))

    def _newest(self, count: int) -> list[RawEvent]:
        """So many of the last, oldest first, with messages."""
        fresh = self._fresh
        if fresh:
            self._handed_out[len(fresh) - 1] = fresh[-1]
        if count <= len(fresh):
            return fresh[len(fresh) - count :]
        kept = list(islice(reversed(self._kept), count - len(fresh)))
        kept.reverse()
        if self._unpack is not None:
            unpacking = _Unpacking(self._unpack)
            kept = [unpacking.whole(raw) for raw in kept]
        if kept and not fresh:
            # Whoever comes back has seen this one.
            self._kept[-1] = kept[-1]
        return kept + fresh

    def events(self) -> list[Event]:
        """What happened, oldest first."""
        return [Event(raw) for raw in self.raw()]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events())

    def tail(self, count: int) -> list[Event]:
        """The last events, oldest first, for a report."""
        return self.events()[-count:] if count > 0 else []

    def query(
        self, *kinds: EventKind, where: Callable[[Event], bool] | None = None, **fields: Unpack[EventFields]
    ) -> list[Event]:
        """The events of these kinds (all when none is named) whose fields equal those given and that `where` accepts.

        Raises ValueError for a kind, and TypeError for a field, that does not exist.
        """
        _refuse_unknown(kinds, fields)
        found = [Event(raw) for raw in self.raw() if not kinds or raw[0] in kinds]
        for name, expected in fields.items():
            found = [event for event in found if name in POSITIONS[event.kind] and expected == event.get(name)]
        return found if where is None else [event for event in found if where(event)]


class _Unpacking:
    """Messages made of plain data, each once: so events of one message share it."""

    def __init__(self, unpack: Unpacker) -> None:
        self._unpack = unpack
        self._made: dict[object, object] = {}

    def whole(self, raw: RawEvent) -> RawEvent:
        """An event with its message."""
        at = _MESSAGE_AT.get(raw[0])
        if at is None or type(raw[at]) is not tuple:
            return raw
        packed = raw[at]
        message = self._made.get(packed)
        if message is None:
            message = self._made[packed] = self._unpack(*cast("tuple[object, ...]", packed))
        return (*raw[:at], message, *raw[at + 1 :])


def _plain(events: list[RawEvent], pack: Packer) -> list[RawEvent]:
    """These with plain data in place of their messages; several tell of the same one. Hot: a loop over events."""
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


def _refuse_unknown(kinds: tuple[str, ...], fields: Mapping[str, object]) -> None:
    for kind in kinds:
        if kind not in POSITIONS:
            raise ValueError(unknown("event", kind, KINDS))
    known = dict.fromkeys(name for kind in kinds or KINDS for name in POSITIONS[kind])
    for name in fields:
        if name not in known:
            raise TypeError(unknown("field", name, known))
