"""Rows of a trace file as the tuples that the core passed to the tap: the inverse of `rows`.

What reads events reads files by this, and needs no second form of a fact. A file may hold less than the events did: a
body that was not kept is empty, and a property that was hidden has the value that hid it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from leveret.trace.caller import Caller
from leveret.trace.events import FIELDS, RawEvent

_CALLERS: Final = frozenset({"caller", "opener"})
_OF_COLUMNS: Final = ("message_id", "correlation_id")
_PROPERTIES: Final = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"),
    *("expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
)


class _Properties:
    """The properties of a message, as far as a file has them; one that it lacks is None."""

    __slots__ = (*_PROPERTIES, "_values")

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = dict(values)
        for name in _PROPERTIES:
            setattr(self, name, values.get(name))

    def to_python(self) -> dict[str, object]:
        """Return the properties that are set, by name."""
        return self._values


class _Message(NamedTuple):
    """A published message, as far as a file has it."""

    id: int
    exchange: str
    routing_key: str
    routing_keys: tuple[str, ...]
    properties: Any
    body: bytes


def raw_events(rows: Iterable[Mapping[str, Any]]) -> Iterator[RawEvent]:
    """Yield the event of each row, whose `attrs` are a mapping. Rows of a newer file's kinds are left out."""
    messages: dict[object, _Message] = {}
    for row in rows:
        kind = str(row.get("kind"))
        fields = FIELDS.get(kind)
        if fields is None:
            continue
        attrs = cast("Mapping[str, Any]", row.get("attrs") or {})
        yield (kind, row.get("ts") or 0, *(_field(name, row, attrs, messages) for name in fields))


def _field(name: str, row: Mapping[str, Any], attrs: Mapping[str, Any], known: dict[object, _Message]) -> object:
    if name == "message":
        return _message(row, attrs, known)
    value = row.get(name)
    value = attrs.get(name) if value is None else value
    if name in _CALLERS:
        return Caller.read(value)
    return "/" if name == "vhost" and value is None else value


def _message(row: Mapping[str, Any], attrs: Mapping[str, Any], known: dict[object, _Message]) -> _Message:
    number = row.get("msg")
    message = known.get(number)
    if message is None or "properties" in attrs:
        properties = dict(attrs.get("properties") or {})
        properties.update({name: row[name] for name in _OF_COLUMNS if row.get(name) is not None})
        exchange, key = str(row.get("exchange") or ""), str(row.get("routing_key") or "")
        body = attrs.get("body")
        body = body if isinstance(body, bytes) else str(body or "").encode("utf-8", "replace")
        keys = tuple(attrs.get("routing_keys") or (key,))
        message = _Message(cast("int", number), exchange, key, keys, _Properties(properties), body)
        known.setdefault(number, message)
    return message
