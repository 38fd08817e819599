"""The columns that a message has in a DataFrame, and their types.

This module does not import Arrow, because Spark asks for the schema in a new process.
"""

from __future__ import annotations

from typing import Final

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

from leveret.errors import OptionError, unknown

COLUMN_TYPES: Final[dict[str, DataType]] = {
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
SCHEMA: Final = StructType([StructField(name, kind) for name, kind in COLUMN_TYPES.items()])


def checked_columns(schema: StructType) -> list[str]:
    """Return the names of a schema's columns. Raises OptionError if a message lacks one or it has another type."""
    for field in schema.fields:
        if field.name not in COLUMN_TYPES:
            raise OptionError(unknown("column", field.name, COLUMN_TYPES))
        if field.dataType != COLUMN_TYPES[field.name]:
            own, asked = COLUMN_TYPES[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(f"column {field.name!r} has type {own}, not {asked}; read it as {own} and cast it later")
    return schema.fieldNames()
