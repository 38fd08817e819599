"""Tables and rules of your own: DataFrames over the stored tables, built by Spark for the runs of an update."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from leveret.errors import unknown
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.rules import PLACEHOLDER, RULES, Rule
from leveret.pipeline.warehouse.parts import DataFile
from leveret.pipeline.warehouse.tables import STORED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from leveret.pipeline.warehouse.state import Contents
    from leveret.pipeline.warehouse.warehouse import Warehouse

# The columns of a table, and its files.
Written = tuple[pa.Schema, list[DataFile]]

_KEY: Final = ("day", "run", "worker", "test", "vhost", "queue", "msg", "copy")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of your own, with a row or more for each run.

    `build` takes the DataFrames of the tables that `reads` names, in that order: "events", leveret's tables, or tables
    of your own before this one. It gets the rows of the runs that changed, and what it returns is stored. That has a
    column `run`.
    """

    reads: tuple[str, ...]
    build: Callable[..., DataFrame]


def check(tables: Mapping[str, Table], spark: SparkSession | None) -> None:
    """Raise ValueError if a table has a name of leveret's, or there is no session to build it."""
    for name in tables:
        if name in (*STORED, *ACROSS):
            raise ValueError(f"table {name!r} is one of leveret's own; choose another name")
    if spark is None and (tables or RULES):
        what = f"table {next(iter(tables))!r}" if tables else f"rule {next(iter(RULES))!r}"
        raise ValueError(f"{what} is your own and needs Spark: pass spark=..., or --engine spark to the command")


def build(
    spark: SparkSession,
    warehouse: Warehouse,
    state: Contents,
    runs: Collection[str],
    written: dict[str, Written],
    tables: Mapping[str, Table],
) -> None:
    """Build and store these tables and the violations of your own rules, for these runs.

    `written` has what was computed of these runs, and gets what is stored. Raises KeyError if a table reads one that
    does not exist, and ValueError if one has no column `run`.
    """
    from leveret.pipeline.exports.frames import rows

    frames: dict[str, DataFrame] = {}

    def frame(name: str, of: str) -> DataFrame:
        if name not in frames:
            if name not in (*STORED, *tables):
                raise KeyError(f"{of} reads {unknown('table', name, (*STORED, *tables))}")
            columns, files = written.get(name) or (STORED[name], state.holding(name, runs))
            frames[name] = rows(spark, warehouse, name, STORED.get(name, columns), files, runs)
        return frames[name]

    for name, table in tables.items():
        try:
            built = table.build(*[frame(source, f"table {name!r}") for source in table.reads])
            if "run" not in built.columns:
                raise ValueError(f"table {name!r} has no column 'run', by which its rows are replaced: add it")
            written[name] = _stored(warehouse, name, built)
        except Exception as error:
            error.add_note(f"while table {name!r} was built")
            raise
    if RULES:
        columns, files = written["violations"]
        more = _stored(warehouse, "violations", broken(frame, list(RULES.values())))[1]
        written["violations"] = columns, [*files, *more]


def _stored(warehouse: Warehouse, name: str, built: DataFrame) -> Written:
    """Write the rows of a table in tasks of Spark, and return its columns and files."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from leveret.spark.bundle import supply

    columns, url = to_arrow_schema(built.schema), warehouse.url
    columns = pa.schema([field.with_nullable(True) for field in columns])

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from leveret.pipeline.warehouse.parts import PartWriter

        writer = PartWriter(url)
        for batch in batches:
            writer.table(name, columns).add(pa.Table.from_batches([batch]).cast(columns))
        files = [json.dumps(file) for file in writer.close().values()]
        yield pa.record_batch([pa.array(files, pa.string())], ["file"])

    supply(built.sparkSession)
    return columns, [DataFile(*json.loads(row.file)) for row in built.mapInArrow(write, "file string").collect()]


def broken(frame: Callable[[str, str], DataFrame], rules: list[Rule]) -> DataFrame:
    """Return the rows that break these rules, in the columns of `violations`. Raises ValueError if one is wrong."""
    from functools import reduce

    from pyspark.sql import DataFrame

    return reduce(DataFrame.unionByName, [_broken(rule, frame) for rule in rules])


def _broken(rule: Rule, frame: Callable[[str, str], DataFrame]) -> DataFrame:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    from leveret.pipeline.exports.frames import spark_schema
    from leveret.pipeline.kernel.schema import VIOLATIONS

    rows = frame(rule.about, f"rule {rule.name!r}")
    try:
        wrong = rows.where(F.expr(rule.condition)).withColumn("text", _text(rule))
        if rule.of_end:
            wrong = _without_cut(wrong, frame("runs", rule.name), frame("tests", rule.name))
        columns = [
            (F.col(name) if name in rows.columns else F.lit(None)).cast(kind.dataType).alias(name)
            for name, kind in ((kind.name, kind) for kind in spark_schema(VIOLATIONS))
            if name in _KEY
        ]
        named = F.lit(None).cast("array<bigint>").alias("seqs")
        chosen = wrong.select(*columns, F.lit(rule.name).alias("rule"), "text", named)
        # Connect analyses a frame only when it is asked for its columns.
        assert chosen.columns
    except AnalysisException as error:
        reason = str(error).split("\n", 1)[0]
        raise ValueError(f"rule {rule.name!r} cannot be evaluated on {rule.about}: {reason}") from None
    return chosen


def _text(rule: Rule) -> Column:
    from pyspark.sql import functions as F

    pieces = PLACEHOLDER.split(rule.text)
    shown = [
        F.coalesce(F.col(piece).cast("string"), F.lit("none")) if number % 2 else F.lit(piece)
        for number, piece in enumerate(pieces)
    ]
    return F.concat(*shown)


def _without_cut(rows: DataFrame, runs: DataFrame, tests: DataFrame) -> DataFrame:
    """Leave out rows of tests whose end is missing because their worker's file was cut."""
    from pyspark.sql import functions as F

    cut = runs.where("truncated").select("run", "worker", F.lit(True).alias("is_cut"))
    ended = tests.where(F.col("outcome").isNotNull()).select("run", "worker", "test", F.lit(True).alias("has_ended"))
    told = rows.join(F.broadcast(cut), ["run", "worker"], "left").join(ended, ["run", "worker", "test"], "left")
    return told.where(F.col("is_cut").isNull() | F.col("has_ended").isNotNull()).drop("is_cut", "has_ended")
