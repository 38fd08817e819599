"""Keeping a warehouse up to date: `ingest` adds new files, and `update` computes the tables of the runs they change.

Each step reads what is committed, writes batches that no reader sees yet, and then publishes them with one commit. So
you can kill a step at any point and run it again. Files may come in any order, late, in pieces or twice. The cost of
one more run depends on its own events, not on how many the warehouse already holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConflictError, NoWarehouseError, unknown
from leveret.pipeline import bronze
from leveret.pipeline.gold import TABLES
from leveret.pipeline.schema import FILES, RUNS, Table
from leveret.pipeline.sources import Progress, TraceFile, find, guessed_events, inspect_all, is_trace
from leveret.pipeline.warehouse import (
    BATCH,
    FileState,
    State,
    Warehouse,
    is_repeated,
    latest_files,
    only,
    size_of,
    write_rows,
)

# The number of rows that a file of events should have, and of events that one task should process in an update.
_EVENTS_A_FILE: Final = 1_500_000
_EVENTS_A_TASK: Final = 500_000
# Up to this many events, exchanging rows between stages costs more than processing them in one task.
_FEW_EVENTS: Final = 50_000
_SMALL_BATCH_BYTES: Final = 32 << 20
_MOST_ATTEMPTS: Final = 10
# Tables that are built at the same time: while one query is planned or waits for its last task, others use the CPUs.
_SIDE_BY_SIDE: Final = 3


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of `ingest`: the files that are new or have changed, and the number of unchanged ones."""

    files: list[TraceFile]
    unchanged: int

    @property
    def refused(self) -> list[TraceFile]:
        """The files that cannot be used."""
        return [file for file in self.files if file.problem is not None]

    @property
    def truncated(self) -> list[TraceFile]:
        """The files that are cut, of which the complete lines are used."""
        return [file for file in self.files if file.problem is None and file.is_truncated]


def _silent(text: str) -> None:
    pass


def ingest(
    spark: SparkSession, places: Iterable[str | Path], warehouse: Warehouse, *, progress: Progress = _silent
) -> Ingested:
    """Ingest the events of the new and changed files in these places into the warehouse.

    Raises NoTracesError if a place does not exist or is a folder without a trace, and ConflictError if other processes
    keep changing the warehouse meanwhile.
    """
    found = find(places)
    for _ in range(_MOST_ATTEMPTS):
        state = warehouse.state()
        changed = [path for path in found if not _is_known(path, state)]
        files = inspect_all(changed, progress)
        if not files:
            return Ingested([], len(found))
        progress(f"reading {len(bronze.usable(files))} of {len(found)} files")
        try:
            return Ingested(_ingest_files(spark, files, warehouse, state), len(found) - len(changed))
        except ConflictError:
            continue
    raise ConflictError(
        f"{warehouse.folder} was changed by other processes during each of {_MOST_ATTEMPTS} attempts; let only one "
        "process ingest"
    )


def update(
    spark: SparkSession,
    warehouse: Warehouse,
    *,
    tables: Mapping[str, Table] = TABLES,
    everything: bool = False,
    progress: Progress = _silent,
) -> list[str]:
    """Compute the tables of the runs that are new or have changed, and return their names.

    With `everything`, compute all runs. Raises ValueError if a table has no column `run`, or other types than declared.
    """
    stored = {name: table for name, table in tables.items() if not table.across_runs}
    for name, table in stored.items():
        if "run" not in table.columns.fieldNames():
            raise ValueError(f"table {name!r} has no column 'run': add it, or declare the table with across_runs=True")
    state = warehouse.state()
    stale = list(state.runs) if everything else state.stale(["runs", *stored])
    if not stale:
        return []
    batch = warehouse.new_batch(state)
    events = warehouse.events(spark, state, stale)
    count = sum(state.runs[name].events for name in stale)
    tasks = max(1, count // _EVENTS_A_TASK)

    def write(name: str, rows: DataFrame) -> DataFrame:
        return _at_hand(_write_table(warehouse, batch, tasks, name, rows), count)

    frames = {"events": _at_hand(events, count), "runs": runs_of(spark, warehouse, state, stale)}
    progress(f"{len(stale)} runs, {count} events: runs")
    frames["runs"] = write("runs", frames["runs"])
    for number, name in enumerate(build_tables(spark, stored, frames, write), start=1):
        progress(f"{len(stale)} runs, {count} events: {name} ({number} of {len(stored)})")
    computed = {name: state.runs[name].revision for name in stale}
    warehouse.commit({"kind": "update", "batch": batch, "tables": ["runs", *stored], "runs": computed})
    return stale


def build_tables(
    spark: SparkSession,
    tables: Mapping[str, Table],
    frames: dict[str, DataFrame],
    write: Callable[[str, DataFrame], DataFrame],
) -> Iterator[str]:
    """Build and write each table once the tables it reads are in `frames`, and yield its name.

    Several tables are built at the same time. Other tables read what `write` returns. Raises KeyError if a table reads
    one that does not exist, and ValueError if a column has another type than declared.
    """
    waiting = dict(tables)
    running: dict[Future[DataFrame], str] = {}

    def build(name: str, table: Table) -> DataFrame:
        try:
            built = table.build(*[frames[source] for source in table.reads]).select(table.columns.fieldNames())
            for declared, found in zip(table.columns, built.schema, strict=True):
                wanted, made = declared.dataType.simpleString(), found.dataType.simpleString()
                if wanted != made:
                    raise ValueError(
                        f"table {name!r} declares column {declared.name!r} as {wanted}, but it was built as {made}: "
                        "cast it"
                    )
            return write(name, built)
        except Exception as error:
            error.add_note(f"while table {name!r} was built")
            raise

    pool = ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="leveret-tables")
    try:
        while waiting or running:
            for name in [name for name, table in waiting.items() if frames.keys() >= set(table.reads)]:
                # Each thread gets its own local properties, in which Spark stores the thread's current query.
                act = inheritable_thread_target(spark)(build)
                running[pool.submit(act, name, waiting.pop(name))] = name
            if not running:
                name, table = next(iter(waiting.items()))
                missing = ", ".join(sorted(set(table.reads) - frames.keys()))
                raise KeyError(f"table {name!r} reads {missing}, which is not among the tables; add it or correct it")
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(done)
                frames[name] = done.result()
                yield name
    finally:
        pool.shutdown(cancel_futures=True)


def runs_of(spark: SparkSession, warehouse: Warehouse, state: State, names: Sequence[str]) -> DataFrame:
    """Return the rows of RUNS for these runs, from the files that hold them."""
    wanted = set(names)
    refusals = [
        bronze.refusal_row(path, file.run, file.worker, file.day, file.is_truncated, file.problem)
        for path, file in state.files.items()
        if file.problem is not None and file.run in wanted
    ]
    files = warehouse.files(spark, state, names)
    if refusals:
        files = files.unionByName(spark.createDataFrame(refusals, FILES))
    repeated = [name for name in names if is_repeated(state.runs[name])]
    return bronze.runs_of(files, warehouse.events(spark, state, repeated) if repeated else None)


def read_table(
    spark: SparkSession,
    warehouse: Warehouse,
    name: str,
    *,
    runs: Iterable[str] | None = None,
    tables: Mapping[str, Table] = TABLES,
    state: State | None = None,
) -> DataFrame:
    """Return the current rows of a table, for these runs or for all: "events", "runs" or one of `tables`.

    Raises KeyError if the table does not exist, and NoWarehouseError if the warehouse does not exist.
    """
    if not warehouse.exists:
        raise NoWarehouseError(f"{warehouse.folder} is not a warehouse; create it with `ingest`")
    known = ("events", "runs", *tables)
    if name not in known:
        raise KeyError(unknown("table", name, known))
    state = state or warehouse.state()
    names = None if runs is None else [run for run in runs if run in state.runs]
    if name == "events":
        return warehouse.events(spark, state, names)
    if name == "runs":
        return warehouse.rows(spark, state, "runs", RUNS, names)
    table = tables[name]
    if not table.across_runs:
        return warehouse.rows(spark, state, name, table.columns, names)
    sources = [read_table(spark, warehouse, read, runs=names, tables=tables, state=state) for read in table.reads]
    return table.build(*sources)


def stream(
    spark: SparkSession,
    place: str | Path,
    warehouse: Warehouse,
    checkpoint: str | Path,
    *,
    tables: Mapping[str, Table] = TABLES,
    files_per_batch: int = 1000,
) -> None:
    """Run `ingest` and `update` as a Structured Streaming query over the files now in a folder, then return.

    The checkpoint records the files that were seen, so Spark lists only new ones. Put files into the folder by renaming
    them; a file that changes afterwards is not read again.
    """
    folder, source = str(warehouse.folder), str(Path(place).absolute())

    def ingest_and_update(files: DataFrame, _: int) -> None:
        session = files.sparkSession
        paths = [Path(bronze.path_of(row[0])) for row in files.select("path").distinct().collect()]
        named = [path for path in paths if is_trace(path, Path(source))]
        if named:
            ingest(session, named, Warehouse(folder))
        update(session, Warehouse(folder), tables=tables)

    listed = (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length long, content binary")
        .option("recursiveFileLookup", "true")
        # Spark counts the age from the newest file. With the default, a run that is uploaded late would be skipped.
        .option("maxFileAge", "365d")
        .option("maxFilesPerTrigger", files_per_batch)
        .load(source)
    )
    query = (
        listed.select(F.col("_metadata.file_path").alias("path"))
        .writeStream.foreachBatch(ingest_and_update)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def compact(
    spark: SparkSession,
    warehouse: Warehouse,
    *,
    tables: Mapping[str, Table] = TABLES,
    small_bytes: int = _SMALL_BATCH_BYTES,
    progress: Progress = _silent,
) -> int:
    """Merge the batches smaller than `small_bytes` into one, and return how many there were.

    Batches with tables that `tables` does not name stay as they are. Raises ConflictError if another process changed
    the warehouse meanwhile; nothing is lost, and you can run it again.
    """
    state = warehouse.state()
    segments = _small(warehouse, ["events"], state.segments(), small_bytes)
    stored = {"runs": RUNS} | {name: table.columns for name, table in tables.items() if not table.across_runs}
    # Merging a batch with a table that is not among these would lose its rows of that table.
    known = [name for name, answer in state.answers.items() if stored.keys() >= set(answer.tables)]
    answers = _small(warehouse, stored, known, small_bytes)
    if not segments and not answers:
        return 0
    batch = warehouse.new_batch(state)
    names: list[str] = []
    if segments:
        progress(f"merging {len(segments)} batches of events")
        _merge_events(spark, warehouse, state, segments, batch)
    if answers:
        names = [name for name in stored if all(name in state.answers[answer].tables for answer in answers)]
        moved = [name for name, run in state.runs.items() if run.answer in set(answers)]
        tasks = max(1, sum(state.runs[name].events for name in moved) // _EVENTS_A_TASK)
        for name in names:
            progress(f"merging {len(answers)} batches of {name}")
            rows = warehouse.rows(spark, state, name, stored[name], moved)
            _write_table(warehouse, batch, tasks, name, rows)
    commit = {"kind": "compact", "batch": batch, "segments": segments, "answers": answers, "tables": names}
    warehouse.commit(commit, after=state.number)
    warehouse.write_state()
    return len({*segments, *answers})


def _ingest_files(spark: SparkSession, files: list[TraceFile], warehouse: Warehouse, state: State) -> list[TraceFile]:
    """Ingest files, and return them as reading showed them: a damaged line makes a file a cut one."""
    batch = warehouse.new_batch(state)
    used = bronze.usable(files)
    summaries: list[dict[str, Any]] = []
    if used:
        place = warehouse.place("events", batch)
        tasks = max(1, round(sum(guessed_events(file.path, file.size_bytes) for file in used) / _EVENTS_A_FILE))
        write_rows(bronze.stored_events(spark, used).coalesce(tasks), place)
        summaries = bronze.summaries_of(spark.read.schema(bronze.STORED_EVENTS).parquet(place))
        rows = bronze.file_rows(used, summaries, state.number + 1)
        write_rows(spark.createDataFrame(rows, FILES).coalesce(1), warehouse.place("files", batch))
        damaged = {used[row["file"]].path for row in summaries if row["damaged"]}
        files = [replace(file, is_truncated=True) if file.path in damaged else file for file in files]
    commit = {
        "kind": "ingest",
        "batch": batch,
        "files": {file.path: _file_entry(file) for file in files},
        "runs": _run_entries(used, summaries),
    }
    warehouse.commit(commit, after=state.number)
    return files


def _merge_events(spark: SparkSession, warehouse: Warehouse, state: State, segments: list[str], batch: str) -> None:
    merged = set(segments)
    runs = [name for name, run in state.runs.items() if merged.intersection(run.segments)]
    # These runs have repeated events, and all their batches are merged here, so each event is now stored once.
    whole = [name for name in runs if is_repeated(state.runs[name]) and merged.issuperset(state.runs[name].segments)]
    stored = warehouse.scan(spark, "events", segments, bronze.STORED_EVENTS)
    kept = bronze.events_among(stored)
    if whole:
        others = [name for name in runs if name not in set(whole)]
        again = bronze.without_repetitions(only(stored, whole, others))
        kept = only(kept, others, whole).unionByName(again) if others else again
    tasks = max(1, sum(state.runs[name].events for name in runs) // _EVENTS_A_FILE)
    write_rows(kept.withColumn("file", F.lit(None).cast("int")).coalesce(tasks), warehouse.place("events", batch))
    files = latest_files(warehouse.scan(spark, "files", segments, FILES))
    write_rows(files.coalesce(1), warehouse.place("files", batch))


def _small(warehouse: Warehouse, tables: Iterable[str], batches: Iterable[str], small_bytes: int) -> list[str]:
    """Return the batches that are small in these tables together; none if there is only one, and nothing to merge."""
    named = list(tables)
    small = [
        batch for batch in batches if sum(size_of(Path(warehouse.place(table, batch))) for table in named) < small_bytes
    ]
    return small if len(small) > 1 else []


def _write_table(warehouse: Warehouse, batch: str, tasks: int, name: str, rows: DataFrame) -> DataFrame:
    """Write a batch of a table, and return it as written, so that tables built from it do not compute it again."""
    place = warehouse.place(name, batch)
    write_rows(rows.withColumn(BATCH, F.lit(batch)).coalesce(tasks), place)
    return rows.sparkSession.read.schema(rows.schema).parquet(place)


def _at_hand(rows: DataFrame, event_count: int) -> DataFrame:
    """Return the rows in one partition if they come from few events, so that nothing built from them is exchanged."""
    return rows.coalesce(1) if event_count <= _FEW_EVENTS else rows


def _is_known(path: Path, state: State) -> bool:
    known = state.files.get(str(path))
    status = path.stat()
    return known is not None and (known.size_bytes, known.modified_ns) == (status.st_size, status.st_mtime_ns)


def _file_entry(file: TraceFile) -> dict[str, Any]:
    day = file.day.isoformat() if file.day else None
    entry = FileState(file.size_bytes, file.modified_ns, file.problem, file.run, file.worker, day, file.is_truncated)
    return asdict(entry)


def _run_entries(files: list[TraceFile], summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return for each run how many events were read, and how many files held each worker."""
    runs: dict[str, Any] = {}
    for file in files:
        # A file with a header and no events still makes its run known.
        if not file.is_parquet:
            runs.setdefault(file.run, {"events": 0, "files": {}})["files"].setdefault(file.worker, 0)
    for row in summaries:
        run = runs.setdefault(row["run"], {"events": 0, "files": {}})
        run["events"] += row["events"]
        run["files"][row["worker"]] = run["files"].get(row["worker"], 0) + 1
    return runs
