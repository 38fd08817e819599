"""Bronze: the events of trace files as one table, one row for each file, and one row for each run and worker.

Run, worker and seq identify an event. So a run may come in several files, a file may grow and come again, and an event
that occurs twice counts once. Spark's executors must be able to read the files' folders too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegerType, StringType, StructField, StructType

from leveret.pipeline.schema import EVENTS, FILES, HEADER, LINE, RUNS
from leveret.pipeline.sources import HEADER_START, TraceFile, find, inspect_all

EVENT_KEY: Final = ["run", "worker", "seq"]

_HEADER_FIELDS: Final = [name for name in HEADER.fieldNames() if name not in ("run", "worker")]
# The columns of a stored batch of events. `file` is the index of the file in the batch. A line that is not an event has
# neither seq nor kind, and its text is in `_extra`.
STORED_EVENTS: Final = StructType([*EVENTS.fields, StructField("file", IntegerType())])
_HEADERS: Final = StructType(
    [
        StructField("uri", StringType()),
        StructField("file", IntegerType()),
        StructField("day", DateType()),
        StructField("run", StringType()),
        StructField("worker", StringType()),
    ]
)


def read_events(spark: SparkSession, paths: Iterable[str | Path]) -> DataFrame:
    """Return the events of these files and folders, each once.

    Unusable files are left out; `read_runs` counts them. Raises NoTracesError if a path does not exist or a folder has
    no trace.
    """
    return events_of(spark, usable(inspect_all(find(paths))))


def events_of(spark: SparkSession, files: Sequence[TraceFile]) -> DataFrame:
    """Return the events of these usable files, each once."""
    return _events_of(files, stored_events(spark, files)) if files else spark.createDataFrame([], EVENTS)


def read_runs(spark: SparkSession, paths: Iterable[str | Path]) -> DataFrame:
    """Return one row for each run and worker in these files and folders. Raises NoTracesError as `read_events` does."""
    files = inspect_all(find(paths))
    good = usable(files)
    rows = [
        refusal_row(file.path, file.run, file.worker, file.day, file.is_truncated, file.problem)
        for file in files
        if file.problem is not None
    ]
    if not good:
        return runs_of(spark.createDataFrame(rows, FILES), None)
    stored = stored_events(spark, good)
    summaries = spark.createDataFrame(rows + file_rows(good, summaries_of(stored), 0), FILES)
    return runs_of(summaries, _events_of(good, stored) if _may_repeat(good) else None)


def usable(files: Sequence[TraceFile]) -> list[TraceFile]:
    """Return the files that have no problem."""
    return [file for file in files if file.problem is None]


def without_repetitions(stored: DataFrame) -> DataFrame:
    """Return the events among stored rows, each once."""
    return events_among(stored).dropDuplicates(EVENT_KEY)


def events_among(stored: DataFrame) -> DataFrame:
    """Return the stored rows that are events."""
    return stored.where(F.col("kind").isNotNull()).select(EVENTS.fieldNames())


def stored_events(spark: SparkSession, files: Sequence[TraceFile]) -> DataFrame:
    """Return the content of these usable files, in the columns of STORED_EVENTS."""
    lines = [(place, file) for place, file in enumerate(files) if not file.is_parquet]
    parts = [
        _of_lines(spark, [(place, file) for place, file in lines if _needs_care(file) is careful], careful)
        for careful in (False, True)
        if any(_needs_care(file) is careful for _, file in lines)
    ]
    tables = [(place, file) for place, file in enumerate(files) if file.is_parquet]
    if tables:
        parts.append(_of_tables(spark, tables))
    return reduce(DataFrame.unionByName, parts)


def summaries_of(stored: DataFrame) -> list[dict[str, Any]]:
    """Return a small row for each file and each run and worker in it, with counts of its events."""
    counted = stored.groupBy("file", "run", "worker").agg(
        F.first("day").alias("day"),
        F.count("kind").alias("events"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        F.count(F.when(F.col("kind").isNull(), 1)).alias("damaged"),
    )
    summaries = [row.asDict() for row in counted.collect()]
    # `_by_uri` knows two spellings of a file's name. A third one would leave `file` null.
    assert all(row["file"] is not None for row in summaries), "Spark reads a file under a name that it did not list"
    return summaries


def file_rows(files: Sequence[TraceFile], summaries: list[dict[str, Any]], ingest: int) -> list[tuple[Any, ...]]:
    """Return the rows of FILES for usable files, from the summaries of their events."""
    by_place: dict[int, list[dict[str, Any]]] = {}
    for row in summaries:
        by_place.setdefault(row["file"], []).append(row)
    rows = []
    for place, file in enumerate(files):
        for row in by_place.get(place) or [_empty_summary(file)]:
            header = [file.header.get(name) for name in _HEADER_FIELDS]
            is_truncated = file.is_truncated or row["damaged"] > 0
            counts = (row["events"], row["first_seq"], row["last_seq"], is_truncated, None)
            rows.append((ingest, file.path, row["day"], row["run"], row["worker"], *_typed(header), *counts))
    return rows


def refusal_row(
    path: str, run: str, worker: str, day: date | str | None, is_truncated: bool, problem: str | None
) -> tuple[Any, ...]:
    """Return the row of FILES for a refused file. Of its header it holds only day, run and worker."""
    known = date.fromisoformat(day) if isinstance(day, str) else day
    return (0, path, known, run, worker, *[None] * len(_HEADER_FIELDS), 0, None, None, is_truncated, problem)


def runs_of(files: DataFrame, events: DataFrame | None) -> DataFrame:
    """Return the rows of RUNS for these rows of FILES.

    `events` are the events, each once, of the runs whose files may repeat events. If another file has the events that a
    cut file lacks, the run is not truncated.
    """
    is_used = F.col("problem").isNull()
    piece = F.struct("file", "first_seq", "last_seq", "truncated")
    rows = files.groupBy("run", "worker").agg(
        F.min_by("day", "file").alias("day"),
        F.min_by(F.struct(_HEADER_FIELDS), F.struct(~is_used, "file")).alias("header"),
        F.sum("events").alias("events"),
        F.count(F.when(is_used, 1)).cast("int").alias("files"),
        F.count(F.when(~is_used, 1)).cast("int").alias("refused"),
        F.collect_list(F.when(is_used, piece)).alias("pieces"),
    )
    rows = rows.withColumn("truncated", F.exists("pieces", lambda cut: cut["truncated"] & ~_is_continued(cut)))
    if events is not None:
        counted = events.groupBy("run", "worker").agg(F.count(F.lit(1)).alias("counted"))
        rows = rows.join(counted, ["run", "worker"], "left")
        rows = rows.withColumn("events", F.coalesce("counted", "events"))
    columns = [F.col(f"header.{name}") if name in _HEADER_FIELDS else F.col(name) for name in RUNS.fieldNames()]
    return rows.select(columns)


def _events_of(files: Sequence[TraceFile], stored: DataFrame) -> DataFrame:
    return without_repetitions(stored) if _may_repeat(files) else events_among(stored)


def _may_repeat(files: Sequence[TraceFile]) -> bool:
    """Return whether two files may hold the same worker of a run. The runs of a Parquet file are not known yet."""
    named = [(file.run, file.worker) for file in files]
    return len(set(named)) < len(files) or (len(files) > 1 and any(file.is_parquet for file in files))


def _is_continued(cut: Column) -> Column:
    """Return whether another file of the run begins before this one's end and goes further, or as far but is whole."""
    end = F.coalesce(cut["last_seq"], F.lit(0))

    def goes_on(other: Column) -> Column:
        other_end = F.coalesce(other["last_seq"], F.lit(0))
        return (
            (other["file"] != cut["file"])
            & (F.coalesce(other["first_seq"], F.lit(0)) <= end + 1)
            & ((other_end > end) | ((other_end == end) & ~other["truncated"]))
        )

    return F.exists("pieces", goes_on)


def _needs_care(file: TraceFile) -> bool:
    """Return whether Hadoop reads this file only if it may skip damage: a compressed file whose end is missing."""
    return file.is_truncated and file.path.endswith(".gz")


def _of_lines(spark: SparkSession, files: list[tuple[int, TraceFile]], careful: bool) -> DataFrame:
    reader = spark.read.option("__globPaths__", "false").option("ignoreCorruptFiles", str(careful).lower())
    text = reader.text([file.path for _, file in files])
    whose = _by_uri(text.inputFiles(), files)
    headers = spark.createDataFrame(
        [(uri, place, file.day, file.run, file.worker) for uri, (place, file) in whose.items()], _HEADERS
    )
    line = text.select("value", F.col("_metadata.file_path").alias("uri")).where(
        ~F.col("value").startswith(HEADER_START) & (F.col("value") != "")
    )
    parsed = line.join(F.broadcast(headers), "uri", "left").select(
        "day", "run", "worker", "file", "value", F.from_json("value", LINE).alias("event")
    )
    event = F.col("event")
    is_event = event["seq"].isNotNull() & event["kind"].isNotNull()
    fields = [F.when(is_event, event[name]).alias(name) for name in LINE.fieldNames()]
    return parsed.select("day", "run", "worker", *fields, _extra(event, is_event).alias("_extra"), "file")


def _extra(event: Column, is_event: Column) -> Column:
    """Return JSON of the keys that have no column. They are searched only if a line has more keys than set columns."""
    value = F.col("value")
    filled = reduce(Column.__add__, [event[name].isNotNull().cast("int") for name in LINE.fieldNames()])
    known = F.array(*[F.lit(name) for name in LINE.fieldNames()])
    everything = F.from_json(value, "map<string,string>")
    unknown = F.map_filter(everything, lambda key, _: ~F.array_contains(known, key))
    extra = F.when(F.size(F.json_object_keys(value)) > filled, F.when(F.size(unknown) > 0, F.to_json(unknown)))
    return F.when(is_event, extra).otherwise(value)


def _of_tables(spark: SparkSession, files: list[tuple[int, TraceFile]]) -> DataFrame:
    reader = spark.read.option("__globPaths__", "false").schema(EVENTS)
    table = reader.parquet(*[file.path for _, file in files])
    whose = _by_uri(table.inputFiles(), files)
    places = spark.createDataFrame([(uri, place) for uri, (place, _) in whose.items()], "uri string, file int")
    placed = table.select("*", F.col("_metadata.file_path").alias("uri")).join(F.broadcast(places), "uri", "left")
    return placed.select(STORED_EVENTS.fieldNames())


def path_of(uri: str) -> str:
    """Return the path of the file to which Spark gives this URI."""
    return unquote(urlsplit(uri).path)


def _by_uri(uris: Iterable[str], files: list[tuple[int, TraceFile]]) -> dict[str, tuple[int, TraceFile]]:
    """Return the files by the URIs that Spark gives them. It writes a local one with three slashes or with one."""
    by_path = {file.path: (place, file) for place, file in files}
    named = {uri: by_path[path_of(uri)] for uri in uris}
    return named | {"file:/" + uri.removeprefix("file:///"): of for uri, of in named.items() if "file:///" in uri}


def _empty_summary(file: TraceFile) -> dict[str, Any]:
    counts = {"events": 0, "first_seq": None, "last_seq": None, "damaged": 0}
    return {"day": file.day, "run": file.run, "worker": file.worker, **counts}


def _typed(header: list[object]) -> list[object]:
    """Return a header's values in the types of its columns. A value of another type becomes text or null."""
    return [_fitting(value, HEADER[name].dataType) for value, name in zip(header, _HEADER_FIELDS, strict=True)]


def _fitting(value: object, column: object) -> object:
    if isinstance(column, StringType):
        return value if value is None or isinstance(value, str) else str(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
