"""Exporting a warehouse to Delta tables, which Spark, DuckDB, Polars and many services read.

The Delta tables have files of their own. A file of the warehouse cannot serve as one of Delta: it may also hold rows
that are no longer current, and Delta's own vacuum would remove files that the warehouse still needs. An export writes
the runs that have changed since the last one. Beside each table, an object says which runs it holds, in which state.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from leveret.errors import ConflictError, unknown
from leveret.pipeline.exports.sql import quoted
from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.storage import Storage, open_storage
from leveret.pipeline.warehouse.log import Contents
from leveret.pipeline.warehouse.tables import STORED, read_table
from leveret.pipeline.warehouse.warehouse import Warehouse, opened

INSTALL: Final = "pip install 'leveret[delta]'"
# The tables that an export writes by default.
TABLES: Final = (*STORED, *ACROSS)

# The rows of so many events are in memory at once.
_EVENTS_AT_ONCE: Final = 500_000
# With more changed runs, the whole table is written: a condition that names them would take longer.
_MOST_NAMED_RUNS: Final = 5000

# What a table holds: its runs, each with the number of the commit that it is from.
_Exported = dict[str, int]


def export(warehouse: Warehouse | str | Path, place: str | Path, *, tables: Collection[str] = TABLES) -> dict[str, int]:
    """Bring the Delta tables `<place>/<table>` up to date, and return the number of runs that changed in each.

    A table across runs is written anew. Raises KeyError if a table does not exist, NoWarehouseError if the warehouse
    does not exist, and ConflictError if another process exports to the same place.
    """
    _check_installed()
    for name in tables:
        if name not in TABLES:
            raise KeyError(unknown("table", name, TABLES))
    warehouse = opened(warehouse)
    state, target = warehouse.existing(), open_storage(place)
    return {name: _export(warehouse, state, target, name) for name in tables}


def _check_installed() -> None:
    try:
        import deltalake  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"Delta tables need deltalake, which is not installed: {INSTALL}") from error


def _export(warehouse: Warehouse, state: Contents, target: Storage, name: str) -> int:
    current = _current(state, name)
    before = _read_exported(target, name, _columns(name))
    gone = set() if before is None else before.keys() - current.keys()
    changed = [run for run, number in current.items() if before is None or before.get(run) != number]
    if before is not None and not gone and not changed:
        return 0
    if name in ACROSS:
        _write(target, name, [read_table(warehouse, name, state=state)])
    elif before is None or len(gone) + len(changed) > _MOST_NAMED_RUNS:
        _write(target, name, _rows(warehouse, state, name, list(current)))
    else:
        _write(target, name, _rows(warehouse, state, name, changed), only=sorted(gone.union(changed)))
    content = {"columns": str(_columns(name)), "runs": current}
    target.write(_exported_path(name), gzip.compress(json.dumps(content).encode()))
    return len(gone) + len(changed)


def _current(state: Contents, name: str) -> _Exported:
    if name == "events":
        return {run: each.revision for run, each in state.runs.items() if each.segments}
    return {run: each.answer_number for run, each in state.runs.items() if each.answer is not None}


def _exported_path(name: str) -> str:
    return f"_exported/{name}.json.gz"


def _read_exported(target: Storage, name: str, columns: pa.Schema) -> _Exported | None:
    """Return what a Delta table holds, or None if it is to be written anew, in other columns perhaps."""
    try:
        content = json.loads(gzip.decompress(target.read(_exported_path(name))))
    except FileNotFoundError:
        return None
    found: _Exported = content["runs"]
    return found if content["columns"] == str(columns) else None


def _columns(name: str) -> pa.Schema:
    return schema.plain(ACROSS[name].columns if name in ACROSS else STORED[name])


def _rows(warehouse: Warehouse, state: Contents, name: str, runs: Iterable[str]) -> Iterator[pa.Table]:
    """Yield the current rows of these runs, those of some runs at a time."""
    group: list[str] = []
    events = 0
    for run in runs:
        group.append(run)
        events += state.runs[run].events
        if events >= _EVENTS_AT_ONCE:
            yield read_table(warehouse, name, runs=group, state=state)
            group, events = [], 0
    if group:
        yield read_table(warehouse, name, runs=group, state=state)


def _write(target: Storage, name: str, tables: Iterable[pa.Table], only: Collection[str] | None = None) -> None:
    """Replace a Delta table, or only the rows of the runs in `only`, in one transaction."""
    from deltalake import write_deltalake
    from deltalake.exceptions import CommitFailedError

    columns = _columns(name)
    batches = (batch for table in tables for batch in table.cast(columns).to_batches())
    if only is None:
        options: dict[str, Any] = {"schema_mode": "overwrite"}
    else:
        options = {"predicate": f"run in ({', '.join(map(quoted, only))})"}
    place = f"{target.url}/{name}"
    # deltalake takes a URL as such: other characters than those of a URL are escaped.
    uri = quote(place, safe="/:") if "://" in place else place
    try:
        write_deltalake(
            uri,
            pa.RecordBatchReader.from_batches(columns, batches),
            mode="overwrite",
            storage_options=_storage_options(place),
            **options,
        )
    except CommitFailedError as error:
        raise ConflictError(f"{place} was changed by another process meanwhile; export again") from error


def _storage_options(place: str) -> dict[str, str]:
    """Return what deltalake does not take from the environment itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if not place.startswith("s3://") or not endpoint:
        return {}
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
