"""Reading the tables of a warehouse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from leveret.errors import NoSuchRunError, unknown
from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.reading import Where, chosen
from leveret.pipeline.warehouse.parts import read_rows
from leveret.pipeline.warehouse.state import Contents
from leveret.pipeline.warehouse.warehouse import FILES, Warehouse, opened

# The stored tables that every warehouse has.
STORED: Final = {"events": schema.EVENTS, "runs": schema.RUNS, **schema.TABLES}


def read_table(
    warehouse: Warehouse | str | Path,
    name: str,
    *,
    runs: Collection[str] | None = None,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    state: Contents | None = None,
) -> pa.Table:
    """Return the current rows of a table, for these runs or for all. `frames.read_frame` does so on Spark.

    Tables are "events", "runs", the other tables of a run, those of your own, and those across runs. Strings may be
    dictionary codes. `columns` are the columns to return, and `where` chooses rows.

    Raises KeyError if the table does not exist, NoSuchRunError if a run does not, and NoWarehouseError if the warehouse
    does not.
    """
    warehouse = opened(warehouse)
    state = warehouse.existing() if state is None else state
    names = names_of_runs(state, name, runs)
    needed = None if columns is None or name in ACROSS else [*dict.fromkeys([*columns, *(where or {})])]
    rows = _rows(warehouse, state, name, names, needed, where or {})
    return rows if columns is None else rows.select(list(columns))


def names_of_runs(state: Contents, table: str, runs: Collection[str] | None) -> list[str]:
    """Return the names of these runs, or of all, of which a table has rows. Raises as `read_table` does."""
    if table not in (tables := names_of_tables(state)):
        raise KeyError(unknown("table", table, tables))
    names = list(state.runs) if runs is None else [runs] if isinstance(runs, str) else list(runs)
    for name in names:
        if name not in state.runs:
            raise NoSuchRunError(unknown("run", name, state.runs))
    # A run that is being computed may have rows in some tables already.
    return names if table == "events" else [name for name in names if state.runs[name].answered is not None]


def names_of_tables(state: Contents) -> list[str]:
    """Return the tables that a warehouse has: those of every warehouse, and those of a user's own."""
    return list(dict.fromkeys([*STORED, *ACROSS, *(name for name in state.tables if name != FILES)]))


def columns_of(warehouse: Warehouse, state: Contents, name: str) -> pa.Schema:
    """Return the columns of a stored table. Of a table of a user's own, its Delta log knows them."""
    return STORED[name] if name in STORED else warehouse.columns(state, name)


def _rows(
    warehouse: Warehouse, state: Contents, name: str, runs: list[str], columns: Collection[str] | None, where: Where
) -> pa.Table:
    if name in ACROSS:
        across = ACROSS[name]
        return chosen(across.build(_rows(warehouse, state, across.reads, runs, across.needs, {})), where)
    kinds = columns_of(warehouse, state, name)
    files = state.files_of(name)
    return read_rows(warehouse.url, name, files, kinds, columns=columns, runs=runs, where=where)
