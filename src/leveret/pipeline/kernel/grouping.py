"""Groups: sums and counts of a table's rows by some of its columns, as plain rows, and neighbours of about one size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel.schema import plain

Row = dict[str, Any]

# A null counts as nothing.
_OF_NOTHING = pc.ScalarAggregateOptions(min_count=0)


def grouped(
    rows: pa.Table,
    by: Sequence[str],
    *,
    sums: Sequence[str] = (),
    lowest: Sequence[str] = (),
    highest: Sequence[str] = (),
    different: Sequence[str] = (),
) -> list[Row]:
    """Return a plain row for each group of rows that are equal in the columns `by`, with its number of rows as `count`.

    `sums`, `lowest` and `highest` are columns of numbers; a null counts as nothing, and the highest of nothing is None.
    For each column of strings in `different`, the group has the number of its different values as `different_NAME`.
    """
    counted = [
        *[(name, "sum", _OF_NOTHING, name) for name in sums],
        *[(name, "min", None, name) for name in lowest],
        *[(name, "max", None, name) for name in highest],
        *[(name, "count_distinct", None, f"different_{name}") for name in different],
    ]
    # Arrow groups by no dictionary codes.
    columns = rows.select(list(dict.fromkeys([*by, *sums, *lowest, *highest, *different])))
    groups = columns.cast(plain(columns.schema)).group_by(list(by), use_threads=False)
    found = groups.aggregate([([], "count_all"), *(of[:3] for of in counted)])
    answer: list[Row] = found.rename_columns([*by, "count", *(name for *_, name in counted)]).to_pylist()
    return answer


def in_groups(sizes: Mapping[str, float], share: float) -> Iterator[list[str]]:
    """Yield neighbours in groups of about this size, none of which is much larger."""
    group: list[str] = []
    held = 0.0
    for name, size in sizes.items():
        if group and held + size / 2 > share:
            yield group
            group, held = [], 0.0
        group.append(name)
        held += size
    if group:
        yield group
