"""A death, and the properties of a letter, whose headers hold the deaths of its message.

The headers are made when something reads them. Most letters in a chain die unread.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from leveret.core.compat import Compat
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Entry, Field, Table, text_field

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

    def to_field(self, compat: Compat) -> Field:
        """Return the entry as the header x-death holds it."""
        if self.published is not None:
            table = self.published
            if self.death_count != count_in(table):
                table = table.with_entry("count", Field("l", self.death_count))
            return Field("F", table.sorted_unique() if self.is_sorted else table)
        values = {
            "count": Field("l", self.death_count),
            "reason": text_field(self.reason),
            "queue": text_field(self.queue),
            "time": Field("T", self.time_s),
            "exchange": text_field(self.exchange),
            "routing-keys": Field("A", tuple(text_field(key) for key in self.routing_keys)),
        }
        if self.original_expiration is not None:
            values["original-expiration"] = text_field(self.original_expiration)
        table = Table(tuple((name, values[name]) for name in compat.x_death_fields if name in values))
        return Field("F", table.sorted_unique() if self.is_sorted else table)


# The deaths of a message, newest first.
Deaths = tuple[Death, ...]


class LetterProperties:
    """The properties of a dead letter, and what they are made of."""

    __slots__ = ("_compat", "_deaths", "_last_exchange", "_octets", "_properties", "envelope", "first")

    def __init__(
        self, envelope: Properties, deaths: Deaths, first: list[Entry], last_exchange: str, compat: Compat
    ) -> None:
        # The properties without the history of its deaths.
        self.envelope = envelope
        self._deaths = deaths
        # The x-first-death headers, and the exchange from which the message came to the queue where it died last.
        self.first = first
        self._last_exchange = last_exchange
        self._compat = compat
        self._properties: Properties | None = None
        self._octets: bytes | None = None

    @property
    def properties(self) -> Properties:
        """The properties as consumers get them."""
        if self._properties is None:
            self._properties = self.envelope.replace(headers=self._headers())
        return self._properties

    @property
    def octets(self) -> bytes:
        """The same, encoded."""
        if self._octets is None:
            self._octets = self.properties.encode()
        return self._octets

    def _headers(self) -> Table:
        compat = self._compat
        entries = list(self.envelope.headers or Table.EMPTY)
        entries.append(("x-death", Field("A", tuple(death.to_field(compat) for death in self._deaths))))
        entries += self.first
        if compat.has_x_last_death:
            # An entry whose count went up keeps its exchange; these headers name the exchange of this death.
            entries += origin_headers("last", self._deaths[0]._replace(exchange=self._last_exchange))
        table = Table(tuple(entries))
        return table.sorted_unique() if compat.sorts_header_keys else table.sorted()


def origin_headers(which: str, death: Death) -> list[Entry]:
    """Return the headers that describe the first or the last death."""
    parts = (("exchange", death.exchange), ("queue", death.queue), ("reason", death.reason))
    return [(f"x-{which}-death-{part}", text_field(value)) for part, value in parts]


def count_in(table: Table) -> int:
    """Return the count in an entry of x-death, 0 if it has none."""
    count = table.get("count")
    return count.value if count is not None and isinstance(count.value, int) else 0
