"""A warehouse: a Delta table for each table, in a folder or an object store.

    <warehouse>/<table>/_delta_log/00000000000000000012.json    delta-rs's log of the table
    <warehouse>/<table>/5f1e9c3a02b81d44.parquet                rows that one task wrote

A task writes files under names of its own and returns them, and the driver commits them. So a task that dies, or runs
twice, changes nothing. The unit of recomputation is a run: its rows of a table are replaced in one transaction of this
table. The table `runs` comes last, and readers see a run once its row there is committed. If an update is killed before
that, the next one computes the run again and replaces its rows.

A transaction names a few groups of runs, and Delta refuses it if another one with such a group came meanwhile. So of
two writers that replace the rows of a run at the same time, the slower one reads the warehouse again.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pa_fs

from leveret.errors import ConflictError, NoWarehouseError
from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.schema import plain
from leveret.pipeline.warehouse.parts import DataFile, PartWriter, filesystem, read_rows
from leveret.pipeline.warehouse.place import escaped, is_folder, located, storage_options
from leveret.pipeline.warehouse.state import Answered, Contents, FileState, Stored, current, expired

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the pipeline needs deltalake, which is not installed: pip install 'leveret[pipeline]'"
    ) from error

# The table of trace files. Its configuration has the settings of the warehouse.
FILES: Final = "files"
RUNS: Final = "runs"
KEEP_DAYS: Final = "leveret.keepDays"
EXPIRED_BEFORE: Final = "leveret.expiredBefore"

# Files that are younger may still be read, or belong to a commit to come.
GRACE_S: Final = 86400.0
# A smaller file is merged with others, up to about this size.
MERGED_BYTES: Final = 16 << 20
# An object store takes longer to answer than to work.
_TABLES_AT_ONCE: Final = 16
# Runs are divided into so many groups. A transaction names those of its runs.
_GROUPS: Final = 256
_CREATED: Final = {"delta.dataSkippingStatsColumns": "run", "delta.checkpointInterval": "50"}
_OF_FILES: Final = tuple(name for name in FileState._fields if name != "is_truncated")


def opened(warehouse: Warehouse | str | Path) -> Warehouse:
    """Return a warehouse that is given as one or by its place."""
    return warehouse if isinstance(warehouse, Warehouse) else Warehouse(warehouse)


class Warehouse:
    """The warehouse at a place: a folder, or `s3://bucket/prefix`.

    All processes that work on it must be able to access it, Spark's executors too. With `as_of`, the tables are read as
    they were at this instant.
    """

    def __init__(self, place: str | Path, *, as_of: datetime | None = None) -> None:
        # The absolute path or the URL, with which another process can open the warehouse.
        self.url: Final = located(place)
        self._as_of: Final = as_of

    def __repr__(self) -> str:
        return f"Warehouse({self.url!r})"

    def state(self) -> Contents:
        """Return the current state; that of a warehouse that does not exist yet is empty."""
        names = self._names()
        # In the opposite order of commits: a run that `runs` has is complete in tables that are read later, and so are
        # the events of a file. What comes meanwhile makes its run stale, now or for the next update.
        found: dict[str, Stored | None] = {it: self._stored(it) for it in (RUNS, FILES) if it in names}
        with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
            others = [name for name in names if name not in found]
            found.update(zip(others, pool.map(self._stored, others), strict=True))
        return self._state({name: stored for name, stored in found.items() if stored is not None})

    def existing(self) -> Contents:
        """Return the current state. Raises NoWarehouseError if nothing was ever committed here."""
        state = self.state()
        if FILES not in state.tables and self._as_of is not None:
            raise NoWarehouseError(f"{self.url} was no warehouse at {self._as_of.isoformat()}; give a later time")
        if FILES not in state.tables:
            raise NoWarehouseError(
                f"{self.url} is not a warehouse; `leveret pipeline update TRACES -w {self.url}` makes one"
            )
        return state

    def refresh(self, state: Contents) -> None:
        """Bring a state up to date."""
        newer = self.state()
        for each in fields(Contents):
            setattr(state, each.name, getattr(newer, each.name))

    def replace(
        self, state: Contents, table: str, columns: pa.Schema, runs: Collection[str], added: Iterable[DataFile]
    ) -> None:
        """Replace the rows of these runs in a table by those in files that were written, as one transaction.

        Raises ConflictError if another process has changed rows of these runs since the state was read.
        """
        old = dict.fromkeys(state.files_of(table), False)
        if state.runs.keys() - set(runs):
            old = self.with_rows_of(table, old, runs)
        kept = PartWriter(self.url)
        for file, has_others in old.items():
            if has_others:
                kept.table(table, columns).add(read_rows(self.url, table, [file], columns, without=runs))
        self.commit(state, table, columns, runs, [*added, *kept.close().values()], list(old))

    def commit(
        self,
        state: Contents,
        table: str,
        columns: pa.Schema,
        runs: Iterable[str],
        added: Collection[DataFile],
        removed: Collection[DataFile] = (),
    ) -> None:
        """Add files to a table and remove others, which is about these runs. Raises ConflictError as `replace` does."""
        if not added and not removed:
            return
        uri, now = escaped(f"{self.url}/{table}"), int(time.time() * 1000)
        adds = [AddAction(file.path, file.size_bytes, {}, now, True, _statistics(file)) for file in added]
        groups = sorted({zlib.crc32(run.encode()) % _GROUPS for run in runs})
        with _conflicts_named(self.url):
            if table not in state.tables:
                create_table_with_add_actions(
                    uri,
                    Schema.from_arrow(plain(columns)),
                    adds,
                    configuration=_CREATED,
                    storage_options=storage_options(self.url),
                    # If another process makes the table meanwhile, delta-rs would add these rows to it.
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
                return
            found = state.tables[table].table
            _add_columns(found, columns)
            found.create_write_transaction(
                [*adds, *(RemoveAction(file.path, True, now, file.size_bytes, {}) for file in removed)],
                "append",
                Schema.from_arrow(plain(columns)),
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(f"leveret-{group}", found.version() + 1) for group in groups]
                ),
            )

    def keep(self, state: Contents, name: str, value: str) -> None:
        """Store a setting of the warehouse."""
        state.tables[FILES].table.alter.set_table_properties({name: value}, raise_if_not_exists=False)

    def merge(self, state: Contents, *, least: int = 2, processes: int | None = None) -> int:
        """Merge the small files of each table that has at least so many, and return how many there were."""
        merged = 0
        for stored in state.tables.values():
            if sum(file.size_bytes < MERGED_BYTES // 2 for file in stored.files) >= least:
                with _conflicts_named(self.url):
                    done = stored.table.optimize.compact(
                        target_size=MERGED_BYTES,
                        max_concurrent_tasks=processes,
                        writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=128_000),
                    )
                merged += done["numFilesRemoved"]
        return merged

    def vacuum(self, *, older_than_s: float = GRACE_S) -> tuple[int, int]:
        """Remove files that no table has had for so many seconds. Return how many files and bytes.

        Younger ones stay, because another process may still write or read them. Raises NoWarehouseError if nothing was
        ever committed here.
        """
        count = size_bytes = 0
        for name, stored in self.existing().tables.items():
            options: dict[str, Any] = {"enforce_retention_duration": False, "full": True}
            # Whole hours, rounded up.
            gone = stored.table.vacuum(-int(-older_than_s // 3600), dry_run=True, **options)
            if gone:
                sizes = [each.size or 0 for each in filesystem(self.url, name).get_file_info(gone)]
                stored.table.vacuum(-int(-older_than_s // 3600), dry_run=False, **options)
                count, size_bytes = count + len(gone), size_bytes + sum(sizes)
        return count, size_bytes

    def with_rows_of(self, table: str, files: Iterable[DataFile], runs: Collection[str]) -> dict[DataFile, bool]:
        """Return those of a table's files that have rows of these runs, and whether they have rows of others."""
        wanted, ordered, column = set(runs), sorted(runs), pa.schema({"run": pa.string()})
        found: dict[DataFile, bool] = {}
        for file in files:
            if file.may_hold(ordered):
                held = {file.low}
                if file.low is None or file.low != file.high:
                    held = set(read_rows(self.url, table, [file], column)["run"].unique().to_pylist())
                if not held.isdisjoint(wanted):
                    found[file] = not held.issubset(wanted)
        return found

    def file_rows(self, state: Contents, runs: Collection[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of `files` that count for each of these runs."""
        found: dict[str, list[dict[str, Any]]] = {}
        for row in read_rows(self.url, FILES, state.holding(FILES, runs), schema.FILES, runs=runs).to_pylist():
            counted = state.runs[row["run"]].files.get(row["file"])
            if counted is not None and counted.ingest == row["ingest"]:
                found.setdefault(row["run"], []).append(row)
        return found

    def columns(self, state: Contents, table: str) -> pa.Schema:
        """Return the columns of a table as its Delta log has them."""
        return pa.schema(state.tables[table].table.schema().to_arrow())

    def _names(self) -> list[str]:
        """Return the folders in which there may be tables."""
        place = filesystem(self.url, "")
        if not is_folder(self.url):
            bucket = self.url.split("/")[2]
            with _named(self.url):
                if place.base_fs.get_file_info(bucket).type == pa_fs.FileType.NotFound:
                    raise OSError(f"the bucket {bucket} does not exist: create it first, or correct the name")
        elif not Path(self.url).is_dir():
            return []
        with _named(self.url):
            found = place.get_file_info(pa_fs.FileSelector("", allow_not_found=True))
        return [each.base_name for each in found if not each.is_file and not each.base_name.startswith((".", "_"))]

    def _stored(self, name: str) -> Stored | None:
        place = f"{self.url}/{name}"
        with _named(place):
            try:
                table = DeltaTable(escaped(place), storage_options=storage_options(self.url))
                if self._as_of is not None:
                    # For an earlier instant, delta-rs would give the first version.
                    if (table.metadata().created_time or 0) > self._as_of.timestamp() * 1000:
                        return None
                    table.load_as_version(self._as_of)
            except TableNotFoundError:
                return None
            actions = pa.table(table.get_add_actions(flatten=True))
            columns = [
                actions[column].to_pylist() if column in actions.column_names else [None] * len(actions)
                for column in ("path", "size_bytes", "num_records", "min.run", "max.run")
            ]
        return Stored(table, [DataFile(*values) for values in zip(*columns, strict=True)])

    def _state(self, tables: dict[str, Stored]) -> Contents:
        if FILES not in tables:
            return Contents(tables)
        told = tables[FILES].table.metadata().configuration
        files, runs = current(self._files(tables[FILES]))
        keep_days = told.get(KEEP_DAYS, "")
        before = told.get(EXPIRED_BEFORE, "")
        for name, answered in self._answered(tables.get(RUNS)):
            if name in runs:
                runs[name].answered = answered
        for name in [name for name, run in runs.items() if not run.files and not run.answered]:
            del runs[name]
        gone = {name: runs.pop(name) for name in expired(runs, before)}
        left = [name for name, run in gone.items() if run.answered or run.events]
        return Contents(tables, files, runs, left, before, int(keep_days) if keep_days else None)

    def _files(self, stored: Stored) -> Iterator[tuple[str, FileState]]:
        columns = pa.schema([schema.FILES.field(name) for name in ("file", *_OF_FILES, "truncated")])
        rows = read_rows(self.url, FILES, stored.files, columns)
        for path, *values, is_truncated in zip(*(rows[name].to_pylist() for name in columns.names), strict=True):
            told = dict(zip(_OF_FILES, values, strict=True))
            yield path, FileState(**told, is_truncated=bool(is_truncated))

    def _answered(self, stored: Stored | None) -> Iterator[tuple[str, Answered]]:
        if stored is not None:
            columns = pa.schema({name: pa.string() for name in ("run", REVISION, TABLES)})
            rows = read_rows(self.url, RUNS, stored.files, columns)
            # Few texts of tables differ.
            names = {text: frozenset((text or "").split(",")) for text in rows[TABLES].unique().to_pylist()}
            for run, revision, text in zip(*(rows[name].to_pylist() for name in columns.names), strict=True):
                yield run, Answered(revision, names[text])


# The columns of `runs` that say what the tables of a run were computed from.
REVISION: Final = "_revision"
TABLES: Final = "_tables"


def _statistics(file: DataFile) -> str:
    low, high = {"run": file.low}, {"run": file.high}
    return json.dumps({"numRecords": file.rows, "minValues": low, "maxValues": high, "nullCount": {"run": 0}})


def _add_columns(table: DeltaTable, columns: pa.Schema) -> None:
    """Add the columns that a table does not have yet. Raises ValueError if it has one with another type."""
    has = {field.name: field.type for field in table.schema().fields}
    given = Schema.from_arrow(plain(columns)).fields
    for field in given:
        if has.get(field.name, field.type) != field.type:
            raise ValueError(
                f"{table.table_uri} has the column {field.name!r} as {has[field.name]}, and not as {field.type}: "
                "give it another name, or make a new warehouse from the traces"
            )
    new = [field for field in given if field.name not in has]
    if new:
        table.alter.add_columns(new)
        table.update_incremental()


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Raise an OSError of one line if a table cannot be read."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError) as error:
        kind = PermissionError if isinstance(error, PermissionError) else OSError
        raise kind(f"{place} cannot be read: {_line(error)}") from None


def _line(error: Exception) -> str:
    """Return the message of an error as one line. delta-rs draws it as a tree, or adds the frames of its stack."""
    plain_text = re.sub(r"\x1b\[[0-9;]*m|↳", "", str(error))
    lines = [line.strip() for line in plain_text.splitlines() if not re.match(r"\s+(\d+: |at )", line)]
    return ": ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else type(error).__name__


@contextmanager
def _conflicts_named(url: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise ConflictError(f"{url} was changed by another process meanwhile") from error
    except DeltaError as error:
        if "already exists" in str(error):
            raise ConflictError(f"{url} was changed by another process meanwhile") from error
        raise OSError(f"{url} cannot be written: {_line(error)}") from None
