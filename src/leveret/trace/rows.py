"""A raw event as a row of the schema: the columns that apply to it, by name.

This module defines what an event of any kind means in a file. `lines` writes the frequent kinds without making a row; a
property test (tests/trace/test_lines.py) checks that both agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Final, cast

from leveret.trace import events
from leveret.trace.caller import Caller
from leveret.trace.events import FIELDS, RawEvent, TracedMessage, as_python
from leveret.trace.redaction import Redaction, body_text, plain
from leveret.trace.schema import COLUMNS

Row = dict[str, object]

HASH_BYTES: Final = 8
# The properties that `attrs` holds, as a key under which what is made of them can be cached.
ATTRS_KEY: Final = attrgetter(
    *("headers", "content_type", "delivery_mode", "content_encoding", "priority", "reply_to", "expiration"),
    *("timestamp", "type", "user_id", "app_id", "cluster_id"),
)
# What has a column, or is redacted.
_OF_COLUMNS: Final = ("message_id", "correlation_id", "headers")
# The messages of one broker have numbers below this one.
NODE_SPAN: Final = 1_000_000_000


class FileNumbering:
    """A mapping from the numbers of one broker to numbers that are unique in a file.

    Every broker numbers its messages and copies from 1, and starts again when it is reset. The file's numbers begin
    with the broker's ordinal: message 7 of the third broker is 2000000007. A connection gets the file's next number.
    """

    __slots__ = ("_connections", "_next_connection", "base", "ordinal")

    def __init__(self, ordinal: int, next_connection: Callable[[], int]) -> None:
        self.ordinal: Final = ordinal
        # The number to add to those of messages and copies.
        self.base: Final = ordinal * NODE_SPAN
        self._next_connection = next_connection
        self._connections: dict[int, int] = {}

    def connection(self, number: int | None) -> int | None:
        """Return the number that a connection has in the file."""
        if number is None:
            return None
        known = self._connections.get(number)
        if known is None:
            known = self._connections[number] = self._next_connection()
        return known


class Rows:
    """The rows of one broker's events."""

    __slots__ = ("keeps_bodies", "numbering", "redaction")

    def __init__(self, numbering: FileNumbering, redaction: Redaction, *, keeps_bodies: bool) -> None:
        self.numbering = numbering
        self.redaction: Final = redaction
        self.keeps_bodies: Final = keeps_bodies

    def row(self, raw: RawEvent, seq: int, wall: int | None, test: str | None) -> Row:
        """Return the row of one event. `wall` is None if its real time is unknown."""
        row, attrs = self.columns_and_attrs(raw)
        row["wall"], row["seq"], row["test"] = wall, seq, test
        if self.numbering.ordinal and "msg" not in row:
            # The number of a message says it too.
            attrs["broker"] = self.numbering.ordinal
        if attrs:
            row["attrs"] = json_text(attrs)
        return {name: value for name, value in row.items() if value is not None}

    def columns_and_attrs(self, raw: RawEvent) -> tuple[Row, dict[str, object]]:
        """Return what one event says by itself: its columns, and the values that have no column."""
        kind = cast("str", raw[0])
        row: Row = {"kind": kind, "ts": raw[1]}
        attrs: dict[str, object] = {}
        for name, value in zip(FIELDS[kind], raw[2:], strict=True):
            if name == "message":
                self._add_message(kind, cast("TracedMessage", value), raw, row, attrs)
            elif name in COLUMNS:
                row[name] = value
            elif value is not None:
                attrs[name] = self._attribute(value)
        self._number(row)
        if attrs.get("destination_kind") == "queue":
            row["queue"] = attrs["destination"]
        return row, attrs

    def _number(self, row: Row) -> None:
        for name in ("copy", "src_copy"):
            if row.get(name) is not None:
                row[name] = cast("int", row[name]) + self.numbering.base
        if row.get("conn") is not None:
            row["conn"] = self.numbering.connection(cast("int", row["conn"]))

    def _attribute(self, value: object) -> object:
        if isinstance(value, Caller):
            return value.as_json()
        value = as_python(value)
        return self.redaction.shown(value) if isinstance(value, Mapping) else plain(value)

    def _add_message(
        self, kind: str, message: TracedMessage, raw: RawEvent, row: Row, attrs: dict[str, object]
    ) -> None:
        row["msg"] = message.id + self.numbering.base
        if events.TABLE[kind].is_addressed:
            row["exchange"], row["routing_key"] = message.exchange, message.routing_key
        if kind in (events.PUBLISHED, events.ENQUEUED):
            row["size"] = len(message.body)
        if kind == events.PUBLISHED:
            row["body_hash"] = body_hash(message.body)
            row["message_id"] = message.properties.message_id
            row["correlation_id"] = message.properties.correlation_id
            attrs.update(self._message_attrs(message))
        elif kind == events.ENQUEUED and (raw[_SRC_COPY] is not None or is_stored_anew(message)):
            attrs.update(self._message_attrs(message))

    def _message_attrs(self, message: TracedMessage) -> dict[str, object]:
        body = message.body if self.keeps_bodies else None
        return message_attrs(message.properties.to_python(), message.routing_keys, body, self.redaction)


def message_attrs(
    properties: Mapping[str, object], routing_keys: Sequence[str], body: bytes | None, redaction: Redaction
) -> dict[str, object]:
    """Return what no column holds of a message: properties, further routing keys, and the body if it is kept."""
    attrs: dict[str, object] = {}
    shown = {name: plain(value) for name, value in properties.items() if name not in _OF_COLUMNS}
    if isinstance(headers := properties.get("headers"), Mapping):
        shown["headers"] = redaction.shown(headers)
    if shown:
        attrs["properties"] = shown
    if len(routing_keys) > 1:
        attrs["routing_keys"] = list(routing_keys)
    if body is not None:
        attrs["body"] = body_text(body)
    return attrs


_SRC_COPY: Final = events.POSITIONS[events.ENQUEUED]["src_copy"]
# The header that a stream adds to a message. A stream changes some of the other properties too.
_OFFSET_HEADER: Final = "x-stream-offset"


def is_stored_anew(message: TracedMessage) -> bool:
    """Return whether a queue stored the message with other properties than those it was published with."""
    headers = message.properties.headers
    return headers is not None and _OFFSET_HEADER in headers


def body_hash(body: bytes) -> str:
    """Return the hash of a body: blake2b of 64 bits, as hexadecimal digits."""
    return blake2b(body, digest_size=HASH_BYTES).hexdigest()


def json_text(values: Mapping[str, object]) -> str:
    """Return a row, or what its column `attrs` holds, as a JSON object: a line of ASCII, without the newline."""
    return json.dumps(values, separators=(",", ":"))
