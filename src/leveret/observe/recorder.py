"""The recorder, `broker.events`: what a test asks of the events that its broker keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Unpack

from leveret.errors import unknown
from leveret.trace.events import KINDS, POSITIONS, Event, EventKind

if TYPE_CHECKING:
    from leveret.trace.keywords import EventFields
    from leveret.trace.ring import EventRing, RecordLevel


class Recorder:
    """The last `size` events at level "recent", and none at level "off". A trace file, if one is written, has all."""

    __slots__ = ("_require_known", "_ring")

    def __init__(self, ring: EventRing, require_known: Callable[[Mapping[str, object]], None] | None = None) -> None:
        """Show a ring.

        `require_known` raises for fields of a query that name what has never existed, if the query found nothing.
        """
        self._ring: Final = ring
        self._require_known: Final = require_known

    @property
    def level(self) -> RecordLevel:
        """What is kept: "recent" or "off"."""
        return self._ring.level

    @property
    def size(self) -> int:
        """How many events are kept at most."""
        return self._ring.size

    @property
    def is_on(self) -> bool:
        """Whether events are kept for reading."""
        return self._ring.is_on

    @property
    def has_dropped(self) -> bool:
        """Whether newer events have pushed out older ones since the beginning or the last `clear`."""
        return self._ring.has_dropped

    @property
    def path(self) -> str | None:
        """The path of the process's trace file, or None if none is written.

        The path changes when the file is compressed, which happens when the process or the run ends.
        """
        return self._ring.path

    def __len__(self) -> int:
        return len(self._ring)

    def clear(self) -> None:
        """Forget all events. From now on the record is complete again."""
        self._ring.clear()

    def events(self) -> list[Event]:
        """Return the recorded events, oldest first."""
        return [Event(raw) for raw in self._ring.raw()]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events())

    def tail(self, count: int) -> list[Event]:
        """Return the last `count` events, oldest first."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise TypeError(f"tail(): count must be a whole number, 0 or more, not {count!r}")
        return self.events()[-count:] if count > 0 else []

    def query(
        self, *kinds: EventKind, where: Callable[[Event], bool] | None = None, **fields: Unpack[EventFields]
    ) -> list[Event]:
        """Return the events of these kinds whose fields equal `fields` and that `where` accepts.

        Without `kinds`, events of all kinds are considered. Raises ValueError if a kind does not exist, TypeError if
        none of the kinds has one of the fields, and NotDeclaredError if a virtual host, queue or exchange of that name
        has never existed.
        """
        __tracebackhide__ = True
        _refuse_unknown(kinds, fields)
        if where is not None and not callable(where):
            raise TypeError(f"query(): where must be a function that takes an event, not {where!r}")
        found = [Event(raw) for raw in self._ring.raw() if not kinds or raw[0] in kinds]
        for name, expected in fields.items():
            found = [event for event in found if name in POSITIONS[event.kind] and expected == event.get(name)]
        if not found and self._require_known is not None:
            self._require_known(fields)
        return found if where is None else [event for event in found if where(event)]


def _refuse_unknown(kinds: tuple[str, ...], fields: Mapping[str, object]) -> None:
    __tracebackhide__ = True
    for kind in kinds:
        if not isinstance(kind, str):
            raise TypeError(f"query(): a kind of event must be text, such as 'delivered', not {kind!r}")
        if kind not in POSITIONS:
            raise ValueError(unknown("event", kind, KINDS))
    known = dict.fromkeys(name for kind in kinds or KINDS for name in POSITIONS[kind])
    for name in fields:
        if name not in known:
            raise TypeError(unknown("field", name, known))
