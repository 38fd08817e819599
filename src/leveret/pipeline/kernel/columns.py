"""The columns of a table as arrays: numbers with a null value, and strings as codes.

A column of strings is a `NameColumn`: its different strings, and for each row the code of its string. Strings are only
looked at once for each different string, and reach the result without being copied. A column of days is one, too. A
column of numbers is an array of int64 in which `NULL` stands for null.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]

# Null in a column of numbers. It is lower than every number, so the maximum of a group ignores it.
NULL: Final = int(np.iinfo(np.int64).min)
# Higher than every number: for the minimum of a group, null becomes this.
NEVER: Final = int(np.iinfo(np.int64).max)
# Instead of the index of a row, if there is none.
NO_ROW: Final = -1


@dataclass(frozen=True)
class NameColumn:
    """A column of strings: `distinct` holds the different ones, and `codes` an index for each row, or -1 for null."""

    codes: Array
    distinct: pa.Array

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> NameColumn:
        """Return a column of an Arrow table, of strings, days or dictionary codes, as a NameColumn."""
        if pa.types.is_dictionary(column.type):
            array = column.unify_dictionaries().combine_chunks()
        else:
            array = column.combine_chunks().dictionary_encode()
        return cls(np.asarray(array.indices.cast(pa.int32()).fill_null(-1)), array.dictionary)

    @cached_property
    def texts(self) -> list[str]:
        """The different strings."""
        texts: list[str] = self.distinct.to_pylist()
        return texts

    def at(self, rows: Array) -> NameColumn:
        """Return the strings of these rows."""
        return NameColumn(self.codes[rows], self.distinct)

    def text(self, row: int) -> str | None:
        """Return the string of one row."""
        code = int(self.codes[row])
        return None if code < 0 else self.texts[code]

    def numbers(self, numbers: Mapping[str, int], otherwise: int = 0) -> Array:
        """Return the number of each row's string in this mapping."""
        # The code of null is -1, so it takes the last entry.
        by_code = [numbers.get(text, otherwise) for text in self.texts]
        found: Array = np.array([*by_code, otherwise], np.int8)[self.codes]
        return found

    def is_in(self, texts: Collection[str]) -> Array:
        """Return for each row whether its string is one of these."""
        found: Array = self.numbers(dict.fromkeys(texts, 1)) == 1
        return found

    def arrow(self) -> pa.Array:
        """Return the rows as an Arrow array of dictionary codes."""
        codes = self.codes.astype(np.int32, copy=False)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), self.distinct)


def names_of(texts: list[str], codes: Array) -> NameColumn:
    """Return a column of these different strings."""
    return NameColumn(codes, pa.array(texts, pa.string()))


def numbers(column: pa.ChunkedArray) -> Array:
    """Return a column of whole numbers as an array, with NULL for null."""
    return np.asarray(column.cast(pa.int64()).fill_null(NULL))


def flags(column: pa.ChunkedArray) -> Array:
    """Return a column of booleans as an array: 1 for true, 0 for false, -1 for null."""
    return np.asarray(column.cast(pa.int8()).fill_null(-1))


def pick(values: Array, rows: Array, otherwise: int = NULL) -> Array:
    """Return the values of these rows, and another number for NO_ROW."""
    return np.where(rows == NO_ROW, otherwise, values[rows]) if len(values) else np.full(len(rows), otherwise)


def table(schema: pa.Schema, columns: Mapping[str, object]) -> pa.Table:
    """Return a table of these columns, of names, arrays, lists or Arrow arrays, in the order of the schema."""
    return pa.Table.from_arrays([_arrow(columns[field.name], field.type) for field in schema], schema=schema)


def _arrow(values: object, kind: pa.DataType) -> pa.Array:
    if isinstance(values, NameColumn):
        return values.arrow().cast(kind)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        is_null = values == NULL
        return pa.array(values, mask=is_null if is_null.any() else None).cast(kind)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)
