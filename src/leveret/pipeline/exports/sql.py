"""SQL over a warehouse: DuckDB reads the Parquet files, and sees the current rows only.

Each table is a view. A file may also hold older rows of runs that were computed again, and rows of runs that have
expired, so a view leaves these out. Only the tables whose names occur in a query are opened.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from leveret.pipeline.computing.tasks import SCHEMAS
from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.warehouse.log import State
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse, opened

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

INSTALL: Final = "pip install 'leveret[sql]'"

# The column that says from which part or folder a row comes.
_PLACE: Final = "_place"
# An object store takes longer to answer than to read.
_FILES_AT_ONCE: Final = 16
_EVENT_KEY: Final = "run, worker, seq"


class _Source(NamedTuple):
    """A file of a table, the part or folder it belongs to, and the runs whose rows are current there; None for all."""

    path: str
    place: str
    live: Collection[str] | None


def query(warehouse: Warehouse | str | Path, text: str, *, state: State | None = None) -> pa.Table:
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
            for name in _names(state):
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


def _names(state: State) -> list[str]:
    own = {name: None for answer in state.answers.values() for name in answer.added}
    return list(dict.fromkeys(["events", *SCHEMAS, *ACROSS, *own]))


def _open(
    connection: DuckDBPyConnection, warehouse: Warehouse, state: State, name: str, *, is_named: bool
) -> DuckDBPyRelation:
    """Return the rows of a table. A table that the query does not name is empty, but has its columns."""
    if name in ACROSS:
        across = ACROSS[name]
        rows = read_table(warehouse, name, state=state) if is_named else across.columns.empty_table()
        return connection.from_arrow(rows)
    if name == "events":
        return _events(connection, warehouse, state, is_named)
    sources = list(_sources(warehouse, state, name))
    columns = SCHEMAS[name] if name in SCHEMAS else _columns_of(warehouse, sources)
    return connection.from_arrow(_dataset(warehouse, columns, sources if is_named else [])).project(_list(columns))


def _events(connection: DuckDBPyConnection, warehouse: Warehouse, state: State, is_named: bool) -> DuckDBPyRelation:
    columns = schema.STORED_EVENTS
    sources = [_Source(f"events/{part}.parquet", part, runs) for part, runs in state.event_parts().items()]
    rows = connection.from_arrow(_dataset(warehouse, columns, sources if is_named else [])).project(_list(columns))
    repeated = [name for name, run in state.runs.items() if run.is_repeated]
    if not repeated:
        return rows
    names = ", ".join(quoted(name) for name in repeated)
    counted = rows.filter(f"run in ({names})").project(f"*, row_number() over (partition by {_EVENT_KEY}) as _copy")
    once = counted.filter("_copy = 1").project(_list(columns))
    return rows.filter(f"run not in ({names})").union(once)


def _sources(warehouse: Warehouse, state: State, table: str) -> Iterator[_Source]:
    """Yield the files of a stored table other than events."""
    folders: dict[str, list[str]] = {}
    for part, answer in state.answers.items():
        if answer.tables.get(table):
            live = state.live_runs(part)
            yield _Source(f"{table}/{part}.parquet", part, None if len(live) == len(answer.runs) else live)
        if table in answer.added:
            folders.setdefault(answer.added[table], []).extend(state.live_runs(part))
    for folder, runs in folders.items():
        for stored in warehouse.storage.list(folder):
            if stored.path.endswith(".parquet"):
                yield _Source(stored.path, folder, runs)


def _columns_of(warehouse: Warehouse, sources: list[_Source]) -> pa.Schema:
    """Return the columns of a table of the user's own, which its files know."""
    import pyarrow.parquet as pq

    return pq.read_schema(warehouse.storage.source(sources[0].path)) if sources else pa.schema({"run": pa.string()})


def _dataset(warehouse: Warehouse, columns: pa.Schema, sources: list[_Source]) -> ds.Dataset:
    """Return these files, with their current rows only, as something that DuckDB reads in pieces."""
    files = ds.ParquetFileFormat()
    fragments = []
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        opened = list(pool.map(warehouse.storage.source, [source.path for source in sources]))
    for source, file in zip(sources, opened, strict=True):
        where = {"filesystem": LocalFileSystem()} if isinstance(file, str) else {}
        fragments.append(files.make_fragment(file, partition_expression=ds.field(_PLACE) == source.place, **where))
    dataset = ds.FileSystemDataset(fragments, schema.plain(columns).append(pa.field(_PLACE, pa.string())), files)
    conditions = {source.place: _condition(source) for source in sources}
    chosen = [condition for condition in conditions.values() if condition is not None]
    return dataset.filter(reduce(and_, chosen)) if chosen else dataset


def _condition(source: _Source) -> ds.Expression | None:
    if source.live is None:
        return None
    return (ds.field(_PLACE) != source.place) | ds.field("run").isin(list(source.live))


def _list(columns: pa.Schema) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in columns.names)


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
