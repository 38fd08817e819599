"""The schema of a trace file, version 1: the columns of an event, and what the first line says of the run.

A column that does not apply to an event is left out of its line. Columns and kinds may be added; the version changes
only when something changes its meaning. Instants are microseconds since the epoch, sizes octets. The pipeline derives
its schema from these tables.
"""

from __future__ import annotations

from typing import Final, Literal

ColumnType = Literal["long", "int", "string", "boolean"]

VERSION: Final = 1

COLUMNS: Final[dict[str, ColumnType]] = {
    # The order of events in a file.
    "seq": "long",
    # By the broker's clock, which a test may hold and move; null where nobody noted the time.
    "ts": "long",
    # In real time, noted once for all that the broker did at one go.
    "wall": "long",
    "kind": "string",
    # The test that ran, by the name pytest gives it.
    "test": "string",
    "vhost": "string",
    # Null for what the test did itself.
    "conn": "int",
    "chan": "int",
    # A published message, kept through dead-lettering; one message in one queue; the copy a dead letter came from.
    "msg": "long",
    "copy": "long",
    "src_copy": "long",
    "exchange": "string",
    "routing_key": "string",
    "queue": "string",
    "consumer": "string",
    # The delivery tag; of a publish and its confirm, the publish number.
    "tag": "long",
    "multiple": "boolean",
    "redelivered": "boolean",
    # How often it had been delivered before; of qos, the prefetch.
    "count": "int",
    "reason": "string",
    "size": "int",
    "body_hash": "string",
    "message_id": "string",
    "correlation_id": "string",
    # When the copy expires, by the broker's clock.
    "expires": "long",
    # A JSON object in a string: what no column is for.
    "attrs": "string",
}

# The header's own names; `leveret` and `v` say that it is one.
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
