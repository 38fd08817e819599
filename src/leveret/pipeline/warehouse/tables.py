"""Reading the tables of a warehouse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leveret.errors import NoSuchRunError, unknown
from leveret.pipeline.computing.tasks import SCHEMAS
from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.events import EVENT_KEY, each_once
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.reading import Where, chosen
from leveret.pipeline.warehouse.log import Contents
from leveret.pipeline.warehouse.parts import CurrentFile, current_files, read_current
from leveret.pipeline.warehouse.warehouse import Warehouse, opened

# The stored tables that every warehouse has.
STORED: Final = {"events": schema.STORED_EVENTS, **SCHEMAS}


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
    """Return the names of these runs, or of all, of which a table is wanted. Raises as `read_table` does."""
    if table not in (tables := names_of_tables(state)):
        raise KeyError(unknown("table", table, tables))
    if runs is None:
        return list(state.runs)
    names = [runs] if isinstance(runs, str) else list(runs)
    for name in names:
        if name not in state.runs:
            raise NoSuchRunError(unknown("run", name, state.runs))
    return names


def names_of_tables(state: Contents) -> list[str]:
    """Return the tables that a warehouse has: those of every warehouse, and those of a user's own."""
    own = [name for answer in state.answers.values() for name in answer.added]
    return list(dict.fromkeys([*STORED, *ACROSS, *own]))


def columns_of(warehouse: Warehouse, name: str, files: Sequence[CurrentFile]) -> pa.Schema:
    """Return the columns of a stored table. Only its files know those of a table of a user's own.

    Raises ValueError if such a column has types that do not go together.
    """
    if name in STORED:
        return STORED[name]
    if not files:
        return pa.schema({"run": pa.string()})
    # The function of such a table may return more columns than it did for earlier runs, which then have nulls.
    schemas = [pq.read_schema(warehouse.storage.source(file.path)) for file in files]
    nullable = [pa.schema([field.with_nullable(True) for field in columns]) for columns in schemas]
    try:
        return pa.unify_schemas(nullable, promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise ValueError(
            f"table {name!r} has other types in other runs ({error}); compute all of it again with "
            "update(..., everything=True)"
        ) from None


def _rows(
    warehouse: Warehouse, state: Contents, name: str, runs: list[str], columns: Collection[str] | None, where: Where
) -> pa.Table:
    if name in ACROSS:
        across = ACROSS[name]
        return chosen(across.build(_rows(warehouse, state, across.reads, runs, across.needs, {})), where)
    needed = None if columns is None else {*columns, *(EVENT_KEY if name == "events" else ())}
    files = current_files(warehouse.storage, state, name, runs)
    kinds = columns_of(warehouse, name, files)
    rows = read_current(warehouse.storage, files, kinds, columns=needed, where=where)
    repeated = state.repeated(runs) if name == "events" else []
    if repeated:
        is_repeated = pc.is_in(rows["run"], value_set=pa.array(repeated))
        again = [each_once(chosen(rows, {"run": [run]})) for run in repeated]
        rows = pa.concat_tables([rows.filter(pc.invert(is_repeated)), *again])
    return rows
