"""Control: the events of clients and tests that are not about a message. They are few, and other tables read them.

The table needs no sort and no sums. What is parsed from JSON is parsed once for each different text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import NEVER, NULL, Array, NameColumn, numbers, table
from leveret.pipeline.kernel.events import Events
from leveret.trace.events import CONTROL
from leveret.trace.jsonl import as_text


@dataclass(frozen=True)
class ControlEvents:
    """The events that are not about a message: their positions, and the JSON texts of their attributes."""

    events: Events
    event: Array
    attrs: NameColumn

    def of_kind(self, *kinds: str) -> ControlEvents:
        """Return the events of these kinds."""
        chosen = self.events.kind.at(self.event).is_in(kinds)
        return ControlEvents(self.events, self.event[chosen], self.attrs.at(chosen))

    def parsed(self) -> list[dict[str, Any]]:
        """Return the attributes of each event; equal texts give the same object."""
        by_code = {code: attributes_of(self.attrs.texts[code]) for code in np.unique(self.attrs.codes) if code >= 0}
        nothing: dict[str, Any] = {}
        return [by_code.get(code, nothing) for code in self.attrs.codes.tolist()]


def control_of(events: Events) -> ControlEvents:
    """Find the events that are not about a message."""
    rows = np.flatnonzero((events.msg == NULL) & events.kind.is_in(CONTROL))
    return ControlEvents(events, rows, NameColumn.of(events.table["attrs"].take(pa.array(rows))))


def control(rows: ControlEvents) -> pa.Table:
    """Return the table `control`."""
    events, chosen = rows.events, rows.event
    count = numbers(events.table["count"].take(pa.array(chosen)))
    plain = {name: getattr(events, name)[chosen] for name in ("seq", "ts", "conn", "chan")}
    names = ("kind", "test", "vhost", "exchange", "routing_key", "queue", "consumer", "reason")
    return table(
        schema.CONTROL,
        {
            **events.file_of(chosen),
            **plain,
            **events.names_of(chosen, *names),
            "count": count,
            "attrs": rows.attrs,
        },
    )


def attributes_at(events: Events, rows: Array) -> list[dict[str, Any]]:
    """Return the attributes of these events, of any kind."""
    return ControlEvents(events, rows, NameColumn.of(events.table["attrs"].take(pa.array(rows)))).parsed()


def text_at(attributes: dict[str, Any], *path: str) -> str | None:
    """Return what the attributes hold under a path, as text; None if there is nothing or null."""
    value: Any = attributes
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return as_text(value)


def whole_number_at(attributes: dict[str, Any], name: str) -> int | None:
    """Return a whole number that fits 63 bits, or None."""
    value = attributes.get(name)
    return value if type(value) is int and abs(value) < NEVER else None


def number_at(attributes: dict[str, Any], name: str) -> float | None:
    """Return a number, or None."""
    value = attributes.get(name)
    return value if type(value) is float else whole_number_at(attributes, name)


def attributes_of(text: str | None) -> dict[str, Any]:
    """Return the attributes in an event's JSON; none if it is no object."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
