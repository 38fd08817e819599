"""The columns that a message has in a DataFrame, and their types.

This module does not import Arrow, because Spark asks for the schema in a new process.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types

from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.errors import OptionError, unknown

COLUMN_TYPES: Final[dict[str, types.DataType]] = {
    "body": types.BinaryType(),
    "exchange": types.StringType(),
    "routing_key": types.StringType(),
    "redelivered": types.BooleanType(),
    "delivery_tag": types.LongType(),
    **dict.fromkeys(PROPERTY_NAMES, types.StringType()),
    "delivery_mode": types.IntegerType(),
    "priority": types.IntegerType(),
    "timestamp": types.TimestampType(),
    "queue": types.StringType(),
    "ordinal": types.LongType(),
}
SCHEMA: Final = types.StructType([types.StructField(name, kind) for name, kind in COLUMN_TYPES.items()])


def checked_columns(schema: types.StructType) -> list[str]:
    """Return the names of a schema's columns. Raises OptionError if a message lacks one or it has another type."""
    for field in schema.fields:
        if field.name not in COLUMN_TYPES:
            raise OptionError(unknown("column", field.name, COLUMN_TYPES))
        if field.dataType != COLUMN_TYPES[field.name]:
            own, asked = COLUMN_TYPES[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(f"column {field.name!r} has type {own}, not {asked}; read it as {own} and cast it later")
    return schema.fieldNames()
