"""Bronze: the events of trace files as one table, and one row for each file and each run they tell of.

An event is known by run, worker and seq. So a run may come in several files, a file may grow and come again, and what
is told twice counts once. The folder a file is in must be one that Spark's executors see too.
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
# The events of a batch as they are stored: `file` is the place of the file in the batch, and a line that is no event
# stands there with neither seq nor kind, its text in `_extra`.
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
    """The events of these files and folders, each once. Files that cannot be used are left out; `read_runs` counts
    them. Raises NoTracesError for a place without any trace.
    """
    return events_of(spark, usable(inspect_all(find(paths))))


def events_of(spark: SparkSession, files: Sequence[TraceFile]) -> DataFrame:
    """The events of these usable files, each once."""
    return _events_of(files, stored_events(spark, files)) if files else spark.createDataFrame([], EVENTS)


def read_runs(spark: SparkSession, paths: Iterable[str | Path]) -> DataFrame:
    """One row for each run and worker that these files and folders tell of. Raises NoTracesError as above."""
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
    told = spark.createDataFrame(rows + file_rows(good, told_of(stored), 0), FILES)
    return runs_of(told, _events_of(good, stored) if _may_repeat(good) else None)


def usable(files: Sequence[TraceFile]) -> list[TraceFile]:
    """Those that are not refused."""
    return [file for file in files if file.problem is None]


def without_repetitions(stored: DataFrame) -> DataFrame:
    """The events among stored rows, each once."""
    return events_among(stored).dropDuplicates(EVENT_KEY)


def events_among(stored: DataFrame) -> DataFrame:
    """The stored rows that are events."""
    return stored.where(F.col("kind").isNotNull()).select(EVENTS.fieldNames())


def stored_events(spark: SparkSession, files: Sequence[TraceFile]) -> DataFrame:
    """What these usable files hold, in the columns of STORED_EVENTS."""
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


def told_of(stored: DataFrame) -> list[dict[str, Any]]:
    """What each file says of each run and worker in it: one small row each."""
    # A file whose name Spark spells in a third way would be nobody's.
    counted = stored.groupBy("file", "run", "worker").agg(
        F.first("day").alias("day"),
        F.count("kind").alias("events"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        F.count(F.when(F.col("kind").isNull(), 1)).alias("damaged"),
    )
    told = [row.asDict() for row in counted.collect()]
    assert all(row["file"] is not None for row in told), "Spark reads a file under a name that it did not list"
    return told


def file_rows(files: Sequence[TraceFile], told: list[dict[str, Any]], ingest: int) -> list[tuple[Any, ...]]:
    """The rows of FILES for usable files, from what they say."""
    by_place: dict[int, list[dict[str, Any]]] = {}
    for row in told:
        by_place.setdefault(row["file"], []).append(row)
    rows = []
    for place, file in enumerate(files):
        for row in by_place.get(place) or [_nothing_told(file)]:
            header = [file.header.get(name) for name in _HEADER_FIELDS]
            is_truncated = file.is_truncated or row["damaged"] > 0
            counts = (row["events"], row["first_seq"], row["last_seq"], is_truncated, None)
            rows.append((ingest, file.path, row["day"], row["run"], row["worker"], *_typed(header), *counts))
    return rows


def refusal_row(
    path: str, run: str, worker: str, day: date | str | None, is_truncated: bool, problem: str | None
) -> tuple[Any, ...]:
    """The row of FILES for a file that is refused; of its header no more than whose it is."""
    known = date.fromisoformat(day) if isinstance(day, str) else day
    return (0, path, known, run, worker, *[None] * len(_HEADER_FIELDS), 0, None, None, is_truncated, problem)


def runs_of(files: DataFrame, events: DataFrame | None) -> DataFrame:
    """RUNS of these rows of FILES. `events` are those of the runs that may be told twice, each once.

    What a cut file lacks may stand in another: then the run is not truncated.
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
    """Whether two of them tell of the same worker of a run; of a Parquet file that is not known."""
    named = [(file.run, file.worker) for file in files]
    return len(set(named)) < len(files) or (len(files) > 1 and any(file.is_parquet for file in files))


def _is_continued(cut: Column) -> Column:
    """Whether another file of the run begins before this one's end and goes further, or as far but whole."""
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
    """Of a compressed file without its end Hadoop gives what there is only when it may pass over the damage."""
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
    """JSON of the keys that no column has; they are looked for only where a line has more keys than columns filled."""
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
    """The path of a file that Spark names so."""
    return unquote(urlsplit(uri).path)


def _by_uri(uris: Iterable[str], files: list[tuple[int, TraceFile]]) -> dict[str, tuple[int, TraceFile]]:
    """Spark names files by URIs, quoted in its own way, and local ones now with three slashes and now with one."""
    by_path = {file.path: (place, file) for place, file in files}
    named = {uri: by_path[path_of(uri)] for uri in uris}
    return named | {"file:/" + uri.removeprefix("file:///"): of for uri, of in named.items() if "file:///" in uri}


def _nothing_told(file: TraceFile) -> dict[str, Any]:
    nothing = {"events": 0, "first_seq": None, "last_seq": None, "damaged": 0}
    return {"day": file.day, "run": file.run, "worker": file.worker, **nothing}


def _typed(header: list[object]) -> list[object]:
    """A header's values as its columns have them; what has another type is told as text or not at all."""
    return [_fitting(value, HEADER[name].dataType) for value, name in zip(header, _HEADER_FIELDS, strict=True)]


def _fitting(value: object, column: object) -> object:
    if isinstance(column, StringType):
        return value if value is None or isinstance(value, str) else str(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
