"""The schema of a trace file, version 1: the columns of an event, and the fields of the header.

A column that does not apply to an event is left out of its line. Columns and kinds may be added; the version changes
only if something changes its meaning. Instants are microseconds since the epoch, and sizes are bytes. The pipeline
derives its schema from these tables.
"""

from __future__ import annotations

from typing import Final, Literal

ColumnType = Literal["long", "int", "string", "boolean"]

VERSION: Final = 1
# The kind of a row that is no event: the shape of messages, or the words in their enumerations.
SHAPE: Final = "shape"

COLUMNS: Final[dict[str, ColumnType]] = {
    # The order of events in a file.
    "seq": "long",
    # The time by the broker's clock, which a test may hold and move; null if no time was recorded.
    "ts": "long",
    # The real time; all events of one turn of the loop share it.
    "wall": "long",
    "kind": "string",
    # The running test, by pytest's name for it.
    "test": "string",
    "vhost": "string",
    # Null for what the test did itself.
    "conn": "int",
    "chan": "int",
    # msg is a published message, also after dead-lettering. copy is one message in one queue. src_copy is the copy that
    # a dead letter came from.
    "msg": "long",
    "copy": "long",
    "src_copy": "long",
    "exchange": "string",
    "routing_key": "string",
    "queue": "string",
    "consumer": "string",
    # The delivery tag; for a publish and its confirm, the publish number.
    "tag": "long",
    "multiple": "boolean",
    "redelivered": "boolean",
    # How often the copy had been delivered before; for qos, the prefetch.
    "count": "int",
    "reason": "string",
    "size": "int",
    "body_hash": "string",
    # The hash of the shape of a published message. The row of the kind `shape` with this hash has the shape.
    "shape": "string",
    "message_id": "string",
    "correlation_id": "string",
    # When the copy expires, by the broker's clock.
    "expires": "long",
    # A JSON object as text, for values that have no column.
    "attrs": "string",
}

# The fields of the header, besides `leveret` and `v`, which mark a line as a header.
HEADER: Final[dict[str, ColumnType]] = {
    "run": "string",
    "worker": "string",
    "epoch_ns": "long",
    "clock": "string",
    "commit": "string",
    "branch": "string",
    "python": "string",
    "client": "string",
    "broker": "string",
    "profile": "string",
    "seed": "long",
    "started": "string",
}
