"""The columns that a message has in a DataFrame, and their types.

This module does not import Arrow, because Spark asks for the schema in a new process.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types

from leveret.core.wire.properties import PROPERTY_NAMES

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
