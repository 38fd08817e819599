"""Reading the tables of a warehouse."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

import pyarrow as pa
import pyarrow.compute as pc

from leveret.errors import NoSuchRunError, unknown
from leveret.pipeline.computing.tasks import SCHEMAS, TABLE_NAMES
from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.events import EVENT_KEY, each_once
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.reading import Where, chosen
from leveret.pipeline.warehouse.current import current_files
from leveret.pipeline.warehouse.log import State
from leveret.pipeline.warehouse.parts import read_current
from leveret.pipeline.warehouse.warehouse import Warehouse, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from leveret.pipeline.computing.own import Table


@overload
def read_table(
    warehouse: Warehouse | str | Path,
    name: str,
    *,
    runs: Collection[str] | None = None,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    state: State | None = None,
) -> pa.Table: ...


@overload
def read_table(
    warehouse: Warehouse | str | Path,
    name: str,
    *,
    spark: SparkSession,
    runs: Collection[str] | None = None,
    columns: Sequence[str] | None = None,
    tables: Mapping[str, Table] | None = None,
    state: State | None = None,
) -> DataFrame: ...


def read_table(
    warehouse: Warehouse | str | Path,
    name: str,
    *,
    spark: SparkSession | None = None,
    runs: Collection[str] | None = None,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    tables: Mapping[str, Table] | None = None,
    state: State | None = None,
) -> pa.Table | DataFrame:
    """Return the current rows of a table, for these runs or for all: an Arrow table, or with `spark` a DataFrame.

    Tables are "events", "runs", the other tables of a run, and those across runs. A DataFrame may also be one of the
    `tables` of your own. In an Arrow table, strings may be dictionary codes, and rows are chosen by `where`.

    Raises KeyError if the table does not exist, NoSuchRunError if a run does not, and NoWarehouseError if the warehouse
    does not.
    """
    warehouse = opened(warehouse)
    state = warehouse.existing() if state is None else state
    names = _known(state, runs)
    names_of_tables = ("events", *TABLE_NAMES, *ACROSS, *(tables or {}))
    if name not in names_of_tables:
        raise KeyError(unknown("table", name, names_of_tables))
    if spark is not None:
        frame = _frame(spark, warehouse, state, name, names, tables or {})
        return frame if columns is None else frame.select(*columns)
    rows = _rows(warehouse, state, name, names, _needed(name, columns, where), where or {})
    return rows if columns is None else rows.select(list(columns))


def _known(state: State, runs: Collection[str] | None) -> list[str]:
    if runs is None:
        return list(state.runs)
    names = [runs] if isinstance(runs, str) else list(runs)
    for name in names:
        if name not in state.runs:
            raise NoSuchRunError(unknown("run", name, state.runs))
    return names


def _needed(name: str, columns: Sequence[str] | None, where: Where | None) -> list[str] | None:
    return None if columns is None or name in ACROSS else [*dict.fromkeys([*columns, *(where or {})])]


def _rows(
    warehouse: Warehouse, state: State, name: str, runs: list[str], columns: Collection[str] | None, where: Where
) -> pa.Table:
    if name in ACROSS:
        across = ACROSS[name]
        return chosen(across.build(_rows(warehouse, state, across.reads, runs, across.needs, {})), where)
    kinds, key = (schema.STORED_EVENTS, EVENT_KEY) if name == "events" else (SCHEMAS[name], ())
    needed = None if columns is None else {*columns, *key}
    files = current_files(warehouse, state, name, runs)
    rows = read_current(warehouse.storage, files, kinds, columns=needed, where=where)
    repeated = state.repeated(runs) if name == "events" else []
    if repeated:
        is_repeated = pc.is_in(rows["run"], value_set=pa.array(repeated))
        again = [each_once(chosen(rows, {"run": [run]})) for run in repeated]
        rows = pa.concat_tables([rows.filter(pc.invert(is_repeated)), *again])
    return rows


def _frame(
    spark: SparkSession,
    warehouse: Warehouse,
    state: State,
    name: str,
    runs: list[str],
    tables: Mapping[str, Table],
) -> DataFrame:
    from leveret.pipeline.exports import frames

    if name in ACROSS:
        return frames.across(ACROSS[name], _frame(spark, warehouse, state, ACROSS[name].reads, runs, tables))
    if name in tables and tables[name].across_runs:
        table = tables[name]
        return table.build(*[_frame(spark, warehouse, state, source, runs, tables) for source in table.reads])
    columns = tables[name].columns if name in tables else frames.columns_of(name)
    return frames.rows(spark, warehouse, state, name, columns, runs)
