"""The recorder: the tap that keeps what happened, so that assertions and reports can ask later.

The tap is the bound `append` of a bounded deque, so recording costs the hot path the tuple and nothing else; where a
trace file is written it is that of the writer's list, and the deque gets what was written. That something fell out at
the far end is known without counting: a mark stands before the first event, and whatever pushes an event out has pushed
out the mark first. How far a reader has come is known the same way, by the last tuple it saw.

It takes no lock: whoever reads holds the broker's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, Literal

from leveret.hooks import RawEvent, Tap
from leveret.trace.events import KINDS, POSITIONS, Event

if TYPE_CHECKING:
    from leveret.trace.writer import Writer

Level = Literal["off", "ring"]

_LEVELS: Final = ("off", "ring")
_BEGINNING: Final[RawEvent] = ("beginning",)


class Recorder:
    """This recorder keeps the last `size` events at level "ring" and nothing at level "off"; a writer keeps all."""

    __slots__ = ("_ring", "level", "size", "tap", "writer")

    def __init__(self, level: Level = "ring", size: int = 100_000, writer: Writer | None = None) -> None:
        if level not in _LEVELS:
            raise ValueError(f"trace level {level!r} is none of {', '.join(_LEVELS)}")
        if size < 1:
            raise ValueError(f"a trace of {size} events keeps nothing; use level 'off' for that")
        self.level: Final = level
        self.size: Final = size
        # The first place is the mark's. What stands there once the mark is gone is no longer counted as kept, so that
        # "dropped" is said exactly when something was.
        self._ring: Final[deque[RawEvent]] = deque((_BEGINNING,), maxlen=size + 1)
        # What goes into `Hooks.tap`: None when nothing is recorded, so that the core does not even make the tuple.
        self.tap: Tap | None = self._ring.append if level == "ring" else None
        if writer is not None:
            writer.ring = self._ring if level == "ring" else None
            self.tap = writer.tap
        # Of the trace file, None where none is written.
        self.writer: Final = writer

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
        return self._ring[0] is not _BEGINNING

    def __len__(self) -> int:
        self._catch_up()
        return len(self._ring) - 1

    def clear(self) -> None:
        """Forget what was recorded; what happens from here on is complete again."""
        self._catch_up()
        self._ring.clear()
        self._ring.append(_BEGINNING)

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
        self._catch_up()
        return list(self._ring)[1:]

    def raw_after(self, last_seen: RawEvent | None) -> list[RawEvent]:
        """The tuples recorded after the one given, oldest first; all of them for None or for one that is gone."""
        count = len(self)
        newer = list(takewhile(lambda raw: raw is not last_seen, islice(reversed(self._ring), count)))
        newer.reverse()
        return newer

    def events(self) -> list[Event]:
        """What happened, oldest first."""
        return [Event(raw) for raw in self.raw()]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events())

    def tail(self, count: int) -> list[Event]:
        """The last events, oldest first, for a report."""
        return self.events()[-count:] if count > 0 else []

    def query(self, *kinds: str, where: Callable[[Event], bool] | None = None, **fields: object) -> list[Event]:
        """The events of these kinds (all when none is named) whose fields equal those given and that `where` accepts.

        Raises ValueError for a kind, and TypeError for a field, that does not exist.
        """
        _refuse_unknown(kinds, fields)
        found = [Event(raw) for raw in self.raw() if not kinds or raw[0] in kinds]
        for name, expected in fields.items():
            found = [event for event in found if name in POSITIONS[event.kind] and expected == event.get(name)]
        return found if where is None else [event for event in found if where(event)]


def _refuse_unknown(kinds: tuple[str, ...], fields: dict[str, object]) -> None:
    for kind in kinds:
        if kind not in POSITIONS:
            raise ValueError(f"there is no event kind {kind!r}; there are {', '.join(KINDS)}")
    for name in fields:
        if not any(name in POSITIONS[kind] for kind in kinds or KINDS):
            raise TypeError(f"no event of the kind asked for has a field {name!r}")
