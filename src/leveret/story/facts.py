"""A fact: one thing that happened, whether a broker has just recorded it or a trace file holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, cast

from leveret.trace import events

# Kinds that a connection, or the test itself, causes.
BY_SOMEONE: Final = frozenset(name for name, kind in events.TABLE.items() if "conn" in kind.fields)
# The attribute of a delivery that says whether its ack would have been recorded. Without it, it would.
HAS_ACKS: Final = "has_acks"


class Fact(Protocol):
    """What an event of a broker and a row of a trace file have in common."""

    @property
    def kind(self) -> str:
        """The kind of the event, one of `events.KINDS`, or a newer one."""

    @property
    def at(self) -> int | None:
        """When it happened, by the broker's clock; None if that was not recorded."""

    def get(self, name: str, /) -> object:
        """Return a field of the event or a column of the file by its name; None if it has none."""


class RowFact:
    """A row of a trace file as a fact. Its `attrs` are a mapping and not text."""

    __slots__ = ("_attrs", "_row")

    def __init__(self, row: Mapping[str, object], attrs: Mapping[str, object] | None = None) -> None:
        """`attrs` are what has no column, if the row itself does not hold them."""
        known = row.get("attrs") if attrs is None else attrs
        self._row: Final = row
        self._attrs: Final[Mapping[str, object]] = known if isinstance(known, Mapping) else {}

    @property
    def kind(self) -> str:
        """The kind of the event."""
        return str(self._row["kind"])

    @property
    def at(self) -> int | None:
        """When it happened, by the broker's clock."""
        return cast("int | None", self._row.get("ts"))

    def get(self, name: str, /) -> object:
        """Return a column, or else what `attrs` has by that name."""
        value = self._row.get(name)
        return self._attrs.get(name) if value is None else value
