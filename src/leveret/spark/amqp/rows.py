"""Deliveries as rows: how the bytes of a message become its columns in a DataFrame.

The tasks decode what the driver took off the wire, so a batch costs the driver's process next to nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from struct import Struct
from struct import error as StructError
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types

from leveret.core.wire.errors import WireError
from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.core.wire.values import Table
from leveret.spark.amqp.columns import COLUMN_TYPES
from leveret.spark.amqp.deliveries import FLAGS_AT, Delivery

_ARROW: Final[dict[type[types.DataType], pa.DataType]] = {
    types.BinaryType: pa.binary(),
    types.StringType: pa.string(),
    types.BooleanType: pa.bool_(),
    types.LongType: pa.int64(),
    types.IntegerType: pa.int32(),
    types.TimestampType: pa.timestamp("us", tz="UTC"),
}
ROWS_PER_RECORD_BATCH: Final = 10_000
# The last second of the year 9999, where Python's calendar and so `collect` end.
_LAST_SECOND: Final = 253_402_300_799
_TEXT: Final = ("utf-8", "replace")
_TAG_AND_FLAG: Final = Struct(">QB")
_FLAGS: Final = Struct(">H")
_SIZE: Final = Struct(">I")
_SECONDS: Final = Struct(">Q")


def record_batches(
    deliveries: Sequence[Delivery], columns: Sequence[str], queue: str, first_ordinal: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of deliveries, in their order, as Arrow record batches."""
    for at in range(0, len(deliveries), ROWS_PER_RECORD_BATCH):
        part = deliveries[at : at + ROWS_PER_RECORD_BATCH]
        yield _record_batch(part, columns, queue, first_ordinal + at)


def _record_batch(
    deliveries: Sequence[Delivery], columns: Sequence[str], queue: str, first_ordinal: int
) -> pa.RecordBatch:
    count = len(deliveries)
    found: dict[str, Any] = {
        "body": [body for _, _, body in deliveries],
        "ordinal": range(first_ordinal, first_ordinal + count),
    }
    if "queue" in columns:
        found["queue"] = pa.repeat(queue, count)
    if "redelivered" in columns or "delivery_tag" in columns:
        marks = [_TAG_AND_FLAG.unpack_from(method, method[0] + 1) for method, _, _ in deliveries]
        found["delivery_tag"] = [tag for tag, _ in marks]
        found["redelivered"] = [bool(flag) for _, flag in marks]
    if "exchange" in columns or "routing_key" in columns:
        routes = _routes([method[method[0] + 10 :] for method, _, _ in deliveries])
        found["exchange"] = [exchange for exchange, _ in routes]
        found["routing_key"] = [routing_key for _, routing_key in routes]
    found |= _properties([header for _, header, _ in deliveries], [name for name in PROPERTY_NAMES if name in columns])
    kinds = [_ARROW[type(COLUMN_TYPES[name])] for name in columns]
    arrays = [_array(found.get(name), kind, count) for name, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(zip(columns, kinds, strict=True))))


def _array(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _routes(encoded: list[bytes]) -> list[tuple[str, str]]:
    """Return the exchange and routing key of each message. Equal routes, which most are, are decoded once."""
    known: dict[bytes, tuple[str, str]] = {}
    for route in encoded:
        if route not in known:
            size = route[0]
            known[route] = route[1 : 1 + size].decode(*_TEXT), route[2 + size :].decode(*_TEXT)
    return [known[route] for route in encoded]


def _properties(headers: Sequence[bytes], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of the properties that at least one message has. Hot: once for each message.

    Properties that cannot be decoded are null, because the broker does not check what clients publish.
    """
    columns: dict[str, list[Any]] = {}
    steps_of: dict[int, list[tuple[Any, list[Any] | None]]] = {}
    for row, header in enumerate(headers):
        (flags,) = _FLAGS.unpack_from(header, FLAGS_AT)
        if flags not in steps_of:
            steps_of[flags] = _steps(flags, names, columns, len(headers))
        at = FLAGS_AT + 2
        try:
            for read, values in steps_of[flags]:
                if read is None:
                    # Most properties are short strings.
                    start = at + 1
                    at = start + header[at]
                    if values is not None:
                        values[row] = header[start:at].decode(*_TEXT)
                else:
                    value, at = read(header, at)
                    if values is not None:
                        values[row] = value
        except (IndexError, StructError, ValueError, WireError):
            continue
    return columns


def _steps(
    flags: int, names: Sequence[str], columns: dict[str, list[Any]], count: int
) -> list[tuple[Any, list[Any] | None]]:
    """Return the readers of a header with these flags, up to the last wanted property, each with its target list."""
    present = [name for position, name in enumerate(PROPERTY_NAMES) if flags & 0x8000 >> position]
    steps: list[tuple[Any, list[Any] | None]] = []
    length = 0
    for name in present:
        values = columns.setdefault(name, [None] * count) if name in names else None
        steps.append((_READERS.get(name), values))
        if values is not None:
            length = len(steps)
    return steps[:length]


def _read_byte(header: bytes, at: int) -> tuple[int, int]:
    return header[at], at + 1


def _read_time(header: bytes, at: int) -> tuple[int | None, int]:
    (seconds,) = _SECONDS.unpack_from(header, at)
    return None if seconds > _LAST_SECOND else seconds * 1_000_000, at + 8


def _read_headers(header: bytes, at: int) -> tuple[str, int]:
    start = at + 4
    end = start + _SIZE.unpack_from(header, at)[0]
    return headers_to_json(Table.decode(header[start:end]).to_python()), end


# The readers of the properties that are not short strings.
_READERS: Final = {
    "headers": _read_headers,
    "delivery_mode": _read_byte,
    "priority": _read_byte,
    "timestamp": _read_time,
}


def headers_to_json(headers: dict[str, object]) -> str:
    """Return headers as JSON: times in ISO 8601, bytes that are not text in base64, decimals as numbers."""
    text = json.dumps(headers, ensure_ascii=False, default=_json_value)
    # Names hold bytes that are not UTF-8 as surrogates, which Arrow does not accept.
    return text.encode("utf-8", "surrogateescape").decode(*_TEXT)


def _json_value(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case Decimal():
            return float(value)
    raise TypeError(f"a header holds a {type(value).__name__}, which JSON cannot hold")
