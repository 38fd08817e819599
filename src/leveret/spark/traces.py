"""The data source `format("leveret")`: the events of trace files as a DataFrame, without a warehouse.

Its rows are those that the table `events` has after an ingest of the same files. It reads them by the pipeline's kernel
and knows no warehouse.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition, IsNotNull
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from leveret.errors import OptionError, UnreadableTraceError, unknown
from leveret.pipeline.kernel.grouping import in_groups
from leveret.pipeline.kernel.schema import EVENTS, plain
from leveret.pipeline.kernel.shards import merged
from leveret.pipeline.kernel.trace import TraceTables
from leveret.pipeline.reading import chosen
from leveret.pipeline.sources import InspectedFile, find, guessed_events, inspect
from leveret.spark.columns import checked_columns

SCHEMA: Final = from_arrow_schema(plain(EVENTS))

# Every event has a value in each of these columns.
_PUSHED: Final = ("run", "kind")
# A task of Python costs about 30 ms of CPU, and so many events about ten times as much.
_EVENTS_A_TASK: Final = 100_000


class TraceDataSource(DataSource):
    """The events of trace files, as a data source."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format("leveret")`."""
        return "leveret"

    def schema(self) -> StructType:
        """Return the columns of an event. Raises OptionError and NoTracesError if there is nothing to read."""
        find(_places(self.options))
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`. Raises as `schema` does, and for a column that no event has."""
        checked_columns(schema, SCHEMA)
        return TraceFilesReader(find(_places(self.options)), schema)


class TraceFilesReader(DataSourceReader):
    """The reader of trace files: of those runs, and of events of those kinds, that a query names."""

    def __init__(self, paths: list[Path], schema: StructType) -> None:
        self._paths = paths
        self._columns = to_arrow_schema(schema)
        # The values of these columns that are wanted.
        self._wanted: dict[str, set[object]] = {}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters that name values of `run` or `kind`, and yield the others, which Spark applies."""
        for given in filters:
            match given:
                case EqualTo(attribute=(column,), value=value) if column in _PUSHED:
                    self._wanted[column] = self._wanted.get(column, {value}) & {value}
                case In(attribute=(column,), value=values) if column in _PUSHED:
                    self._wanted[column] = self._wanted.get(column, set(values)) & set(values)
                case IsNotNull(attribute=(column,)) if column in _PUSHED:
                    pass
                case _:
                    yield given

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files of each task. Raises UnreadableTraceError if a file is no trace or of another version."""
        files = [_usable(inspect(path)) for path in self._paths]
        units = _units(file for file in files if file.run in self._wanted.get("run", {file.run}))
        sizes = {key: sum(guessed_events(file.path, file.size_bytes) for file in unit) for key, unit in units.items()}
        tasks = [[[file.path for file in units[key]] for key in keys] for keys in in_groups(sizes, _EVENTS_A_TASK)]
        # For no partition at all, Spark makes one without a value.
        return [InputPartition(task) for task in tasks or [[]]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of a task's files. Spark calls this in a task."""
        for unit in partition.value:
            for rows in _events(unit):
                yield from chosen(rows, self._wanted).select(self._columns.names).cast(self._columns).to_batches()


def _places(options: Mapping[str, str]) -> list[str]:
    """Return what `load` was given. Spark passes several paths as JSON."""
    for name in options:
        if name.lower() not in ("path", "paths"):
            raise OptionError(unknown("option", name, ["path"]))
    places: list[str] = json.loads(options.get("paths", "[]")) or [options.get("path", "")]
    if not all(places):
        raise OptionError('format leveret needs a path: name a folder of traces, or trace files, as in load("traces")')
    return places


def _usable(file: InspectedFile) -> InspectedFile:
    if file.problem is not None:
        raise UnreadableTraceError(
            f"{file.path} cannot be read as a trace, so move it elsewhere or name the others: {file.problem}"
        )
    return file


def _units(files: Iterable[InspectedFile]) -> dict[str, list[InspectedFile]]:
    """Return the files that are read together: all of a run of which several hold one worker, else each file alone."""
    files = list(files)
    counts = Counter((file.run, file.worker) for file in files)
    repeated = {run for (run, _), count in counts.items() if count > 1}
    first: dict[str, str] = {}
    units: dict[str, list[InspectedFile]] = {}
    for file in files:
        key = first.setdefault(file.run, file.path) if file.run in repeated else file.path
        units.setdefault(key, []).append(file)
    return units


def _events(paths: list[str]) -> Iterator[pa.Table]:
    """Yield the events of these files. Events of several come once, under the names of their shards, as in `ingest`."""
    if len(paths) == 1:
        yield from _events_of(paths[0])
    else:
        tables = [table for path in paths for table in _events_of(path)]
        yield merged(pa.concat_tables([EVENTS.empty_table(), *tables]))[0]


def _events_of(path: str) -> Iterator[pa.Table]:
    reader = TraceTables(Path(path))
    yield from reader.tables()
    # Of a line without end, it learns here only.
    _usable(reader.file)
