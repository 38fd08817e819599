"""SQL over a warehouse: DuckDB reads the Parquet files, and sees the current rows only.

Each table is a view. A file may also hold older rows of runs that were computed again, and rows of runs that have
expired, so a view leaves these out. Only the tables whose names occur in a query are opened.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.warehouse.log import Contents
from leveret.pipeline.warehouse.parts import CurrentFile, current_files
from leveret.pipeline.warehouse.tables import STORED, columns_of, names_of_tables, read_table
from leveret.pipeline.warehouse.warehouse import Warehouse, opened

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

INSTALL: Final = "pip install 'leveret[sql]'"

# The column that says from which file a row comes.
_FILE: Final = "_file"
# An object store takes longer to answer than to read.
_FILES_AT_ONCE: Final = 16


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
    files = current_files(warehouse.storage, state, name) if is_named or name not in STORED else []
    columns = columns_of(warehouse, name, files)
    rows = connection.from_arrow(_dataset(warehouse, columns, files if is_named else [])).project(
        f"* exclude ({_FILE})"
    )
    repeated = state.repeated(state.runs) if name == "events" and is_named else []
    if not repeated:
        return rows
    once = connection.from_arrow(read_table(warehouse, name, runs=repeated, state=state).cast(columns))
    return rows.filter(f"run not in ({', '.join(map(quoted, repeated))})").union(once)


def _dataset(warehouse: Warehouse, columns: pa.Schema, files: list[CurrentFile]) -> ds.Dataset:
    """Return these files, with their current rows only, as something that DuckDB reads in pieces."""
    parquet = ds.ParquetFileFormat()
    fragments = []
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        opened = list(pool.map(warehouse.storage.source, [file.path for file in files]))
    for file, source in zip(files, opened, strict=True):
        where = {"filesystem": LocalFileSystem()} if isinstance(source, str) else {}
        fragments.append(parquet.make_fragment(source, partition_expression=ds.field(_FILE) == file.path, **where))
    dataset = ds.FileSystemDataset(fragments, schema.plain(columns).append(pa.field(_FILE, pa.string())), parquet)
    conditions = [
        (ds.field(_FILE) != file.path) | ds.field("run").isin(file.runs) for file in files if not file.is_whole
    ]
    return dataset.filter(reduce(and_, conditions)) if conditions else dataset


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
