"""Sums and counts of a table's rows by some of its columns, as plain rows for answers that people read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel.columns import NULL, Names, codes_of, numbers
from leveret.pipeline.kernel.groups import Numbering, numbered

Row = dict[str, Any]


def grouped(
    rows: pa.Table,
    by: Sequence[str],
    *,
    sums: Sequence[str] = (),
    highest: Sequence[str] = (),
    different: Sequence[str] = (),
) -> list[Row]:
    """Return a plain row for each group of rows that are equal in the columns `by`, with its number of rows as `count`.

    `sums` and `highest` are columns of numbers; a null counts as nothing, and the highest of nothing is None. For each
    column of strings in `different`, the group has the number of its different values as `different_NAME`.
    """
    groups = numbering_of(rows, by)
    found: dict[str, list[Any]] = {name: rows[name].take(pa.array(groups.first)).to_pylist() for name in by}
    found["count"] = groups.counts().tolist()
    for name in sums:
        found[name] = _sum(rows[name], groups)
    for name in highest:
        values = groups.highest(codes_of(rows[name]))
        found[name] = [None if value == NULL else value for value in values.tolist()]
    for name in different:
        codes = Names.of(rows[name]).codes
        pairs = numbered(groups.number, codes)
        number = groups.number[pairs.first][codes[pairs.first] >= 0]
        found[f"different_{name}"] = np.bincount(number, minlength=groups.count).tolist()
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def numbering_of(rows: pa.Table, by: Sequence[str]) -> Numbering:
    """Number the rows: those that are equal in the columns `by` get equal numbers."""
    return numbered(*(codes_of(rows[name]) for name in by)) if by else numbered(np.zeros(len(rows), np.int64))


def _sum(column: pa.ChunkedArray, groups: Numbering) -> list[Any]:
    if pa.types.is_floating(column.type):
        weights = np.asarray(column.fill_null(0.0))
        return list(np.bincount(groups.number, weights=weights, minlength=groups.count).tolist())
    return list(groups.sums(numbers(column.fill_null(0))).tolist())
