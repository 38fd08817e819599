"""Reading tables for answers: what the report and the diff ask for, wherever the tables are.

`Read` is the question. `tables.read_table` answers it from a warehouse.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

# The columns to choose rows by, and the values that the chosen rows have there; None stands for null.
Where = Mapping[str, Collection[Any]]


class Read(Protocol):
    """A reader of tables: "events", "runs", the other tables of a run, and the tables across runs."""

    def __call__(
        self,
        name: str,
        *,
        runs: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> pa.Table:
        """Return the rows of a table, of these runs or of all, in any order; strings may be dictionary codes.

        A table across runs is computed over these runs. `columns` are the columns to return, and `where` chooses rows.
        Raises KeyError if the table does not exist.
        """


def cut_workers(read: Read, runs: Collection[str]) -> frozenset[tuple[str, str]]:
    """Return the runs and workers of which a part is missing: of a trace file, or the end of a test.

    Their numbers are too small. A run that was killed between two tests leaves no sign.
    """
    columns = ("run", "worker")
    files = read("runs", runs=runs, columns=columns, where={"truncated": [True]})
    tests = read("tests", runs=runs, columns=columns, where={"outcome": [None]})
    return frozenset((row["run"], row["worker"]) for rows in (files, tests) for row in rows.to_pylist())


def cut_among(read: Read, runs: Collection[str]) -> frozenset[str]:
    """Return which of these runs were cut."""
    return frozenset(run for run, _ in cut_workers(read, runs))


def chosen(rows: pa.Table, where: Where) -> pa.Table:
    """Return the rows that have one of the values in each of these columns."""
    for name, values in where.items():
        kind = rows[name].type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        rows = rows.filter(pc.is_in(rows[name], value_set=pa.array(list(values), kind)))
    return rows
