"""The Parquet files of a table: those that one task writes, and reading rows from such files.

Small tables share a row group, and the rows of one run stand together. A file says in `low` and `high` which runs it
can hold, so that most files need not be opened.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from leveret.pipeline.reading import Where, chosen
from leveret.pipeline.warehouse.place import endpoint, is_folder, region

# Rows of a row group: enough that a column is cheap to read, and few enough that the memory of a task is small.
GROUP_ROWS: Final = 128_000
# A disk and an object store take longer to answer than to read or write.
_FILES_AT_ONCE: Final = 8


class DataFile(NamedTuple):
    """A file of a table: its path in the table's folder, its size, its number of rows, and the range of its runs."""

    path: str
    size_bytes: int
    rows: int
    # The least and the greatest run, by the order of UTF-8. A file that another tool wrote may not say them.
    low: str | None
    high: str | None

    def may_hold(self, runs: Sequence[str]) -> bool:
        """Return whether the file can hold rows of one of these runs, which are sorted."""
        return self.low is None or self.high is None or is_between(self.low, self.high, runs)


def is_between(low: str, high: str, runs: Sequence[str]) -> bool:
    """Return whether one of these runs, which are sorted, is in a range."""
    at = bisect_left(runs, low)
    return at < len(runs) and runs[at] <= high


def filesystem(url: str, table: str) -> pa_fs.SubTreeFileSystem:
    """Return the files of a table of the warehouse at this place."""
    if is_folder(url):
        return pa_fs.SubTreeFileSystem(f"{url}/{table}", pa_fs.LocalFileSystem())
    # Credentials come from the environment, or else from the role of the machine.
    options: dict[str, Any] = {"region": region(), "allow_delayed_open": True}
    if address := endpoint():
        options["scheme"], _, options["endpoint_override"] = address.partition("://")
    return pa_fs.SubTreeFileSystem(f"{url.removeprefix('s3://')}/{table}", pa_fs.S3FileSystem(**options))


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
        self._runs: set[str] = set()
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        """Add rows. Once there are enough of them, they are written."""
        if not len(rows):
            return
        self._runs.update(rows["run"].unique().to_pylist())
        self._waiting.append(rows)
        self._waiting_rows += len(rows)
        self.rows += len(rows)
        if self._waiting_rows >= GROUP_ROWS:
            self._flush()

    def close(self) -> pa.Buffer:
        """Return the content of the file."""
        self._flush()
        self._file.close()
        return self._sink.getvalue()

    @property
    def range(self) -> tuple[str, str]:
        """The least and the greatest run."""
        return min(self._runs), max(self._runs)

    def _flush(self) -> None:
        """Write all rows that were added, as one row group."""
        if self._waiting_rows:
            rows = pa.concat_tables(self._waiting)
            self._file.write_table(rows.unify_dictionaries(), row_group_size=len(rows))
        self._waiting, self._waiting_rows = [], 0


class PartWriter:
    """Writes rows of several tables. Only `close` makes files: one for each table, under a name that no other has."""

    def __init__(self, url: str) -> None:
        self._url: Final = url
        self._path: Final = f"{token_hex(16)}.parquet"
        self._writers: dict[str, TableWriter] = {}

    def table(self, name: str, schema: pa.Schema) -> TableWriter:
        """Return the writer of a table."""
        if name not in self._writers:
            self._writers[name] = TableWriter(schema)
        return self._writers[name]

    def close(self) -> dict[str, DataFile]:
        """Write the files, and return that of each table that has rows."""
        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            writes = {name: pool.submit(self._write, name, of) for name, of in self._writers.items() if of.rows}
            return {name: write.result() for name, write in writes.items()}

    def _write(self, name: str, writer: TableWriter) -> DataFile:
        content = writer.close()
        if is_folder(self._url):
            Path(self._url, name).mkdir(parents=True, exist_ok=True)
        try:
            with filesystem(self._url, name).open_output_stream(self._path) as file:
                file.write(content)
        except OSError as error:
            # A full disk is reported without a name.
            raise OSError(f"{self._url}/{name}/{self._path} cannot be written: {error}") from None
        return DataFile(self._path, content.size, writer.rows, *writer.range)


def read_rows(
    url: str,
    table: str,
    files: Iterable[DataFile],
    schema: pa.Schema,
    *,
    columns: Collection[str] | None = None,
    runs: Collection[str] | None = None,
    without: Collection[str] = (),
    where: Where | None = None,
) -> pa.Table:
    """Return rows of these files of a table: these columns, in the order of the schema.

    Only rows of these `runs` are returned, and none of those `without`. With `where`, whose columns are among
    `columns`, only the rows that it chooses are ever in memory together.
    """
    wanted = pa.schema([field for field in schema if columns is None or field.name in columns])
    place, runs = filesystem(url, table), None if runs is None else sorted(runs)
    read = partial(_read_file, place, wanted=wanted, runs=runs, without=without, where=where or {})
    # From a folder, one after the other is as fast, and takes less memory.
    with ThreadPoolExecutor(1 if is_folder(url) else _FILES_AT_ONCE) as pool:
        tables = list(pool.map(read, [file.path for file in files if runs is None or file.may_hold(runs)]))
    return pa.concat_tables(tables) if tables else wanted.empty_table()


def _read_file(
    place: pa_fs.SubTreeFileSystem,
    path: str,
    *,
    wanted: pa.Schema,
    runs: Sequence[str] | None,
    without: Collection[str],
    where: Where,
) -> pa.Table:
    with _opened(place, path, wanted) as file:
        groups = range(file.num_row_groups) if runs is None else _groups_with(file, runs)
        if not where:
            return _read_groups(file, groups, wanted, runs, without)
        of_where = pa.schema([field for field in wanted if field.name in where])
        tables = [
            chosen(_read_groups(file, [group], wanted, runs, without), where)
            for group in groups
            if len(chosen(_read_groups(file, [group], of_where, None, ()), where))
        ]
        return pa.concat_tables(tables) if tables else wanted.empty_table()


def _opened(place: pa_fs.SubTreeFileSystem, path: str, schema: pa.Schema) -> pq.ParquetFile:
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    arguments: dict[str, Any] = {
        "filesystem": place,
        "pre_buffer": not isinstance(place.base_fs, pa_fs.LocalFileSystem),
    }
    try:
        return pq.ParquetFile(path, read_dictionary=texts, **arguments)
    except KeyError:
        # An older leveret has written it, without one of these columns.
        return pq.ParquetFile(path, **arguments)


def _groups_with(file: pq.ParquetFile, runs: Sequence[str]) -> list[int]:
    """Return the row groups that may hold rows of these runs, by their statistics."""
    column = file.schema_arrow.get_field_index("run")
    numbers = []
    for number in range(file.num_row_groups):
        of_group = file.metadata.row_group(number).column(column).statistics
        if of_group is None or not of_group.has_min_max or is_between(of_group.min, of_group.max, runs):
            numbers.append(number)
    return numbers


def _read_groups(
    file: pq.ParquetFile,
    groups: Iterable[int],
    schema: pa.Schema,
    runs: Collection[str] | None,
    without: Collection[str],
) -> pa.Table:
    names = schema.names if "run" in schema.names else [*schema.names, "run"]
    rows = file.read_row_groups(list(groups), columns=names, use_threads=False)
    if runs is not None:
        rows = of_runs(rows, runs)
    if without:
        rows = rows.filter(pc.invert(pc.is_in(rows["run"], pa.array(list(without), pa.string()))))
    for name in set(schema.names).difference(rows.column_names):
        rows = rows.append_column(name, pa.nulls(len(rows)))
    return rows.select(schema.names).cast(schema)


def of_runs(rows: pa.Table, runs: Collection[str]) -> pa.Table:
    """Return the rows of these runs. If they stand together, nothing is copied."""
    is_wanted = pc.is_in(rows["run"], pa.array(list(runs), pa.string())).combine_chunks()
    count = pc.sum(is_wanted).as_py() or 0
    first = pc.index(is_wanted, True).as_py()
    if count and pc.all(is_wanted.slice(first, count)).as_py():
        return rows.slice(first, count)
    return rows.filter(is_wanted)
