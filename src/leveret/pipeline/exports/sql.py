"""SQL over a warehouse: DuckDB reads the Parquet files, and sees the same rows as every reader of leveret's.

Each table is a view. Only the tables whose names occur in a query are opened.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from leveret.pipeline.kernel.schema import plain
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.warehouse.parts import filesystem
from leveret.pipeline.warehouse.state import Contents
from leveret.pipeline.warehouse.tables import columns_of, names_of_runs, names_of_tables, read_table
from leveret.pipeline.warehouse.warehouse import Warehouse, opened

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

INSTALL: Final = "pip install 'leveret[sql]'"


def query(warehouse: Warehouse | str | Path, text: str, *, state: Contents | None = None) -> pa.Table:
    """Return the rows that a query finds in the tables of a warehouse.

    The query can read no file, change nothing and load no extension. Raises ValueError if it is wrong or is not one
    query, and NoWarehouseError if the warehouse does not exist.
    """
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"SQL needs DuckDB, which is not installed: {INSTALL}") from error
    warehouse = opened(warehouse)
    state = warehouse.existing() if state is None else state
    settings: dict[str, Any] = {"enable_external_access": False, "python_enable_replacements": False}
    try:
        with duckdb.connect(config=settings) as connection:
            _check_one_query(connection.extract_statements(text))
            for name in names_of_tables(state):
                is_named = re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE) is not None
                _open(connection, warehouse, state, name, is_named=is_named).create_view(name)
            connection.execute("set lock_configuration = true")
            return connection.sql(text).to_arrow_table()
    except duckdb.Error as error:
        raise ValueError(_one_line(str(error))) from None


def _check_one_query(statements: list[Any]) -> None:
    kinds = [str(statement.type).rpartition(".")[2] for statement in statements]
    if len(kinds) != 1 or kinds[0] not in ("SELECT", "EXPLAIN"):
        raise ValueError(
            f'expected one query, such as "select * from runs", but got {" and ".join(kinds) or "nothing"}; '
            '"show tables" and "describe runs" list what you can read'
        )


def _one_line(text: str) -> str:
    """Return a message of DuckDB without its drawing of the query."""
    lines = text.split("\n\nLINE ", 1)[0].splitlines()
    return " ".join(line.strip() for line in lines if line.strip())


def _open(
    connection: DuckDBPyConnection, warehouse: Warehouse, state: Contents, name: str, *, is_named: bool
) -> DuckDBPyRelation:
    """Return the rows of a table. A table that the query does not name is empty, but has its columns."""
    if name in ACROSS:
        across = ACROSS[name]
        rows = read_table(warehouse, name, state=state) if is_named else across.columns.empty_table()
        return connection.from_arrow(rows)
    runs = names_of_runs(state, name, None)
    files = [file.path for file in state.holding(name, runs)] if is_named else []
    columns = plain(columns_of(warehouse, state, name))
    dataset = ds.FileSystemDataset.from_paths(
        files, schema=columns, format=ds.ParquetFileFormat(), filesystem=filesystem(warehouse.url, name)
    )
    return connection.from_arrow(dataset.filter(ds.field("run").isin(runs)))
