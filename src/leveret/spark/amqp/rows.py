"""Deliveries as rows: the columns a message has in a DataFrame, and how its octets become them.

Decoded in the tasks, from what the driver took off the wire: a batch costs the driver's process next to nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from leveret.spark.amqp.deliveries import FLAGS_AT, Delivery, delivery_tag, is_redelivered
from leveret.spark.amqp.errors import OptionError
from leveret.wire.errors import WireError
from leveret.wire.properties import PROPERTY_NAMES, Properties

_TYPES: Final[dict[str, DataType]] = {
    "body": BinaryType(),
    "exchange": StringType(),
    "routing_key": StringType(),
    "redelivered": BooleanType(),
    "delivery_tag": LongType(),
    "content_type": StringType(),
    "content_encoding": StringType(),
    "headers": StringType(),
    "delivery_mode": IntegerType(),
    "priority": IntegerType(),
    "correlation_id": StringType(),
    "reply_to": StringType(),
    "expiration": StringType(),
    "message_id": StringType(),
    "timestamp": TimestampType(),
    "type": StringType(),
    "user_id": StringType(),
    "app_id": StringType(),
    "cluster_id": StringType(),
    "queue": StringType(),
    "ordinal": LongType(),
}
SCHEMA: Final = StructType([StructField(name, kind) for name, kind in _TYPES.items()])
_ARROW: Final[dict[type[DataType], pa.DataType]] = {
    BinaryType: pa.binary(),
    StringType: pa.string(),
    BooleanType: pa.bool_(),
    LongType: pa.int64(),
    IntegerType: pa.int32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
}
ROWS_PER_RECORD_BATCH: Final = 10_000
# The last second of the year 9999: Python's calendar, and with it `collect`, ends there.
_LAST_SECOND: Final = 253_402_300_799
_TEXT: Final = ("utf-8", "replace")


def checked_columns(schema: StructType) -> list[str]:
    """The columns of a schema, when a message has them all, with their types; raises OptionError."""
    for field in schema.fields:
        if field.name not in _TYPES:
            raise OptionError(f"a message has no column {field.name!r}; it has {', '.join(_TYPES)}")
        if field.dataType != _TYPES[field.name]:
            own, asked = _TYPES[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(f"column {field.name} is {own}, not {asked}: cast it after reading")
    return schema.fieldNames()


def record_batches(
    deliveries: Sequence[Delivery], columns: Sequence[str], queue: str, first_ordinal: int
) -> Iterator[pa.RecordBatch]:
    """The rows of deliveries, in their order, as Arrow has them."""
    for at in range(0, len(deliveries), ROWS_PER_RECORD_BATCH):
        part = deliveries[at : at + ROWS_PER_RECORD_BATCH]
        yield _record_batch(part, columns, queue, first_ordinal + at)


def _record_batch(
    deliveries: Sequence[Delivery], columns: Sequence[str], queue: str, first_ordinal: int
) -> pa.RecordBatch:
    values: dict[str, Any] = {}
    if "body" in columns:
        values["body"] = [body for _, _, body in deliveries]
    if "redelivered" in columns:
        values["redelivered"] = [is_redelivered(delivery) for delivery in deliveries]
    if "delivery_tag" in columns:
        values["delivery_tag"] = [delivery_tag(delivery) for delivery in deliveries]
    if "exchange" in columns or "routing_key" in columns:
        routes = _decoded([method[method[0] + 10 :] for method, _, _ in deliveries], _route)
        values["exchange"] = [exchange for exchange, _ in routes]
        values["routing_key"] = [routing_key for _, routing_key in routes]
    asked = [name for name in PROPERTY_NAMES if name in columns]
    if asked:
        properties = _decoded([header[FLAGS_AT:] for _, header, _ in deliveries], _properties)
        for name in asked:
            values[name] = [one[name] for one in properties]
    count = len(deliveries)
    if "queue" in columns:
        values["queue"] = [queue] * count
    if "ordinal" in columns:
        values["ordinal"] = range(first_ordinal, first_ordinal + count)
    kinds = [_ARROW[type(_TYPES[name])] for name in columns]
    arrays = [pa.array(values[name], kind) for name, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(zip(columns, kinds, strict=True))))


def _decoded(octets: list[bytes], decode: Any) -> list[Any]:
    """Each decoded; what repeats is decoded once, which for routes and properties is most."""
    known: dict[bytes, Any] = {}
    found = []
    for one in octets:
        if one not in known:
            known[one] = decode(one)
        found.append(known[one])
    return found


def _route(octets: bytes) -> tuple[str, str]:
    size = octets[0]
    return octets[1 : 1 + size].decode(*_TEXT), octets[2 + size :].decode(*_TEXT)


def _properties(octets: bytes) -> dict[str, Any]:
    """The values of the columns. What nobody can decode has none: the broker does not check what clients publish."""
    try:
        properties = Properties.decode(octets)
    except (WireError, ValueError):
        properties = Properties()
    values = {name: _column_value(getattr(properties, name)) for name in PROPERTY_NAMES}
    values["headers"] = None if properties.headers is None else headers_to_json(properties.headers.to_python())
    seconds = properties.timestamp
    values["timestamp"] = None if seconds is None or seconds > _LAST_SECOND else seconds * 1_000_000
    return values


def _column_value(value: object) -> object:
    """Octets that are no UTF-8 stand in our text as surrogates, which Arrow does not take."""
    return value.encode("utf-8", "surrogateescape").decode(*_TEXT) if isinstance(value, str) else value


def headers_to_json(headers: dict[str, object]) -> str:
    """A table of headers as JSON: times in ISO 8601, octets that are no text in base64, decimals as numbers."""
    return _column_text(json.dumps(headers, ensure_ascii=False, default=_json_value))


def _column_text(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode(*_TEXT)


def _json_value(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case Decimal():
            return float(value)
    raise TypeError(f"a header holds {type(value).__name__}")
