"""The columns that a user asks of one of leveret's data sources, instead of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.errors import OptionError, unknown

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def checked_columns(asked: StructType, own: StructType) -> list[str]:
    """Return the names of the columns that were asked for. Raises OptionError if one is unknown or of another type."""
    kinds = {field.name: field.dataType for field in own.fields}
    for field in asked.fields:
        if field.name not in kinds:
            raise OptionError(unknown("column", field.name, kinds))
        if field.dataType != kinds[field.name]:
            kind, other = kinds[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(
                f"column {field.name!r} has type {kind}, not {other}; read it as {kind} and cast it later"
            )
    return asked.fieldNames()
