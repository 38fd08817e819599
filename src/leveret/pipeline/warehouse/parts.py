"""Parts: the Parquet files that one task writes, and reading the events of a run from them.

A part has one file for each table with rows. Small tables share a row group, and the rows of one run stand together.
`current_files` finds the files with the current rows of a table. A file may also hold older rows of runs that were
computed again, and rows of runs that have expired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leveret.pipeline.reading import Where, chosen
from leveret.pipeline.storage import Storage
from leveret.pipeline.warehouse.log import Contents, Segment, parts_of

# Rows of a row group: enough that a column is cheap to read, and few enough that the memory of a task is small.
GROUP_ROWS: Final = 128_000
# A disk and an object store take longer to answer than to read or write.
_FILES_AT_ONCE: Final = 8


class TableWriter:
    """Writes rows into one Parquet file, in memory until it is closed."""

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = pa.BufferOutputStream()
        # Numbers get no dictionary: most of their values occur once, so it would take time and save no space.
        texts = [field.name for field in schema if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type)]
        self._file = pq.ParquetWriter(
            self._sink, schema, compression="zstd", use_dictionary=texts, store_schema=False, write_statistics=["run"]
        )
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self.rows = 0
        # The row groups that are written.
        self.groups = 0

    def add(self, rows: pa.Table) -> None:
        """Add rows. Once there are enough of them, they are written."""
        self._waiting.append(rows)
        self._waiting_rows += len(rows)
        self.rows += len(rows)
        if self._waiting_rows >= GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write all rows that were added, as one row group."""
        if self._waiting_rows:
            rows = pa.concat_tables(self._waiting)
            self._file.write_table(rows.unify_dictionaries(), row_group_size=len(rows))
            self.groups += 1
        self._waiting, self._waiting_rows = [], 0

    def close(self) -> pa.Buffer:
        """Return the content of the file."""
        self.flush()
        self._file.close()
        return self._sink.getvalue()


class PartWriter:
    """Writes the tables of a part. Only `close` makes files."""

    def __init__(self, storage: Storage, part: str) -> None:
        self.part = part
        self._storage = storage
        self._writers: dict[str, TableWriter] = {}

    def table(self, name: str, schema: pa.Schema) -> TableWriter:
        """Return the writer of a table."""
        if name not in self._writers:
            self._writers[name] = TableWriter(schema)
        return self._writers[name]

    def close(self) -> dict[str, int]:
        """Write the files, and return the number of rows of each table. A table without rows gets no file."""
        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            writes = [
                pool.submit(self._storage.write, f"{name}/{self.part}.parquet", writer.close())
                for name, writer in self._writers.items()
                if writer.rows
            ]
            for write in writes:
                write.result()
        return {name: writer.rows for name, writer in self._writers.items()}


class CurrentFile(NamedTuple):
    """A file of a table, the runs whose rows are current there, and whether these are all rows of the file."""

    path: str
    runs: list[str]
    is_whole: bool


def current_files(
    storage: Storage, state: Contents, table: str, runs: Iterable[str] | None = None
) -> list[CurrentFile]:
    """Return the files that hold the current rows of a stored table for these runs, or for all.

    They are parts, and files that Spark has written for a user's own tables and rules.
    """
    names = state.runs if runs is None else runs
    live: dict[str, list[str]] = {}
    if table == "events":
        for name in names:
            for part in parts_of(segment for segment in state.runs[name].segments if segment.groups):
                live.setdefault(part, []).append(name)
        return [CurrentFile(f"events/{part}.parquet", of_part, False) for part, of_part in live.items()]
    for name in names:
        if (answer := state.runs[name].answer) is not None:
            live.setdefault(answer, []).append(name)
    files: list[CurrentFile] = []
    folders: dict[str, list[str]] = {}
    for part, of_part in live.items():
        answered = state.answers[part]
        if answered.tables.get(table):
            files.append(CurrentFile(f"{table}/{part}.parquet", of_part, len(of_part) == len(answered.runs)))
        if table in answered.added:
            folders.setdefault(answered.added[table], []).extend(of_part)
    for folder, of_folder in folders.items():
        paths = (stored.path for stored in storage.list(folder))
        files += [CurrentFile(path, of_folder, False) for path in paths if path.endswith(".parquet")]
    return files


def read_part(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    *,
    columns: Collection[str] | None = None,
    runs: Collection[str] | None = None,
    where: Where | None = None,
) -> pa.Table:
    """Return rows of a file of a table: these columns (in the schema's order), and only the rows of these runs.

    With `where`, whose columns are among `columns`, only the rows that it chooses are ever in memory together.
    """
    wanted = pa.schema([field for field in schema if columns is None or field.name in columns])
    with _open(storage, path, wanted) as file:
        groups = range(file.num_row_groups) if runs is None else _groups_with(file, runs)
        if not where:
            return _read_groups(file, groups, wanted, runs)
        of_where = pa.schema([field for field in schema if field.name in where])
        tables = [
            chosen(_read_groups(file, [group], wanted, runs), where)
            for group in groups
            if len(chosen(_read_groups(file, [group], of_where, None), where))
        ]
        return pa.concat_tables(tables) if tables else wanted.empty_table()


def read_current(
    storage: Storage,
    files: Iterable[CurrentFile],
    schema: pa.Schema,
    *,
    columns: Collection[str] | None = None,
    where: Where | None = None,
) -> pa.Table:
    """Return the current rows of these files, as `read_part` does."""
    # From a folder, one after the other is as fast, and takes less memory.
    with ThreadPoolExecutor(_FILES_AT_ONCE if "://" in storage.url else 1) as pool:
        read = partial(read_part, storage, schema=schema, columns=columns, where=where)
        tables = list(pool.map(lambda file: read(file.path, runs=None if file.is_whole else file.runs), files))
    wanted = pa.schema([field for field in schema if columns is None or field.name in columns])
    return pa.concat_tables(tables) if tables else wanted.empty_table()


def read_events(
    storage: Storage, segments: Iterable[tuple[str, Segment]], schema: pa.Schema
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the events in these segments of runs, with the name of the run. Each file is opened once."""
    by_part: dict[str, list[tuple[str, Segment]]] = {}
    for run, segment in segments:
        by_part.setdefault(segment.part, []).append((run, segment))
    for part, wanted in by_part.items():
        with _open(storage, f"events/{part}.parquet", schema) as file:
            yield from _events_of(file, wanted, schema)


def _events_of(
    file: pq.ParquetFile, wanted: list[tuple[str, Segment]], schema: pa.Schema
) -> Iterator[tuple[str, pa.Table]]:
    last: tuple[int, int] | None = None
    rows = schema.empty_table()
    for run, segment in sorted(wanted, key=lambda pair: pair[1].first):
        # Neighbours share row groups, which are read once.
        if last != (segment.first, segment.groups):
            last = (segment.first, segment.groups)
            rows = _read_groups(file, range(segment.first, segment.first + segment.groups), schema, None)
        yield run, _of_runs(rows, [run])


def _open(storage: Storage, path: str, schema: pa.Schema) -> pq.ParquetFile:
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    try:
        return pq.ParquetFile(storage.source(path), read_dictionary=texts, pre_buffer=False)
    except KeyError:
        # An older leveret has written it, without one of these columns.
        return pq.ParquetFile(storage.source(path), pre_buffer=False)


def _groups_with(file: pq.ParquetFile, runs: Collection[str]) -> list[int]:
    """Return the row groups that may hold rows of these runs, by their statistics."""
    column = file.schema_arrow.get_field_index("run")
    numbers = []
    for number in range(file.num_row_groups):
        of_group = file.metadata.row_group(number).column(column).statistics
        if of_group is None or not of_group.has_min_max or any(of_group.min <= run <= of_group.max for run in runs):
            numbers.append(number)
    return numbers


def _read_groups(
    file: pq.ParquetFile, groups: Iterable[int], schema: pa.Schema, runs: Collection[str] | None
) -> pa.Table:
    names = schema.names if runs is None or "run" in schema.names else [*schema.names, "run"]
    rows = file.read_row_groups(list(groups), columns=names, use_threads=False)
    if runs is not None:
        rows = _of_runs(rows, runs)
    for name in set(schema.names).difference(rows.column_names):
        rows = rows.append_column(name, pa.nulls(len(rows)))
    return rows.select(schema.names).cast(schema)


def _of_runs(rows: pa.Table, runs: Collection[str]) -> pa.Table:
    """Return the rows of these runs. If they stand together, nothing is copied."""
    column = rows["run"]
    is_wanted = pc.is_in(column, pa.array(list(runs), pa.string())).combine_chunks()
    count = pc.sum(is_wanted).as_py() or 0
    if count == len(rows):
        return rows
    first = pc.index(is_wanted, True).as_py()
    if count and pc.all(is_wanted.slice(first, count)).as_py():
        return rows.slice(first, count)
    return rows.filter(is_wanted)
