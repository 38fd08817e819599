"""Rows of a trace file as the tuples that the core passed to the tap: the inverse of `rows`.

What reads events reads files by this, and needs no second form of a fact. A file may hold less than the events did: a
body that was not kept is empty, and a property that was hidden has the value that hid it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from leveret.trace.caller import Caller
from leveret.trace.events import FIELDS, OTHER_FIELDS, RawEvent, TracedMessage
from leveret.trace.rows import body_hash

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
    # Its size and its hash, and whether the file has its body.
    size: int
    digest: str
    has_body: bool


def raw_events(rows: Iterable[Mapping[str, Any]]) -> Iterator[RawEvent]:
    """Yield the event of each row, whose `attrs` are a mapping. One of a newer file's kinds has the `OTHER_FIELDS`."""
    messages: dict[object, _Message] = {}
    for row in rows:
        kind = str(row.get("kind"))
        attrs = cast("Mapping[str, Any]", row.get("attrs") or {})
        fields = FIELDS.get(kind, OTHER_FIELDS)
        yield (kind, row.get("ts") or 0, *(_field(name, row, attrs, messages) for name in fields))


def content_of(message: TracedMessage) -> tuple[bytes | None, int, str]:
    """Return the body of a message, None if it was not kept, its size and its hash."""
    if isinstance(message, _Message):
        return message.body if message.has_body else None, message.size, message.digest
    return message.body, len(message.body), body_hash(message.body)


def _field(name: str, row: Mapping[str, Any], attrs: Mapping[str, Any], known: dict[object, _Message]) -> object:
    if name == "message":
        return _message(row, attrs, known)
    value = row.get(name)
    value = attrs.get(name) if value is None else value
    if name in _CALLERS:
        return Caller.read(value)
    if name == "destination" and value is None:
        # The tables of the pipeline have no other column for it.
        return row.get("queue")
    return "/" if name == "vhost" and value is None else value


def _message(row: Mapping[str, Any], attrs: Mapping[str, Any], known: dict[object, _Message]) -> _Message:
    number = row.get("msg")
    message = known.get(number)
    if message is None or "properties" in attrs:
        properties = dict(attrs.get("properties") or {})
        properties.update({name: row[name] for name in _OF_COLUMNS if row.get(name) is not None})
        exchange, key = str(row.get("exchange") or ""), str(row.get("routing_key") or "")
        known_body = attrs.get("body")
        body = known_body if isinstance(known_body, bytes) else str(known_body or "").encode("utf-8", "replace")
        keys = tuple(attrs.get("routing_keys") or (key,))
        content = body, row.get("size") or 0, row.get("body_hash") or "", known_body is not None
        message = _Message(cast("int", number), exchange, key, keys, _Properties(properties), *content)
        known.setdefault(number, message)
    return message
