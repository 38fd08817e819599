"""The report: one HTML file on what the messages of a run, or of a commit's runs, did.

The page needs no network and no JavaScript. Everything in it comes from the tables of a warehouse, in lists of bounded
length. `findings` queries Spark, and the other modules lay out the results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from leveret.errors import NoSuchRunError
from leveret.pipeline.incremental import read_table
from leveret.pipeline.report.findings import find
from leveret.pipeline.report.page import page
from leveret.pipeline.report.subject import before, choose
from leveret.pipeline.spark_session import UNCOMPILED
from leveret.pipeline.warehouse import Warehouse

__all__ = ["NoSuchRunError", "for_small_questions", "report"]


def report(spark: SparkSession, warehouse: Warehouse, name: str | None = None, *, against: str | None = None) -> str:
    """Return the HTML page on a run or commit, compared with another one.

    `name` defaults to the newest run, and `against` to the newest one before it. The warehouse must be up to date.
    Raises NoSuchRunError if a name matches no run and no commit, or several.
    """
    with for_small_questions(spark) as session:
        state = warehouse.state()
        read = partial(read_table, session, warehouse, state=state)
        subject = choose(read("runs"), name)
        other = before(read("runs"), subject) if against is None else choose(read("runs"), against)
        answers = find(read, subject, other)
    files = [(path, file) for path, file in state.files.items() if file.run in subject.runs or file.problem is not None]
    cut = [path for path, file in files if file.is_truncated and file.problem is None]
    refused = [(path, file.problem) for path, file in files if file.problem is not None]
    return page(subject, other, answers, cut, refused)


@contextmanager
def for_small_questions(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield a second session with settings for small queries. On Spark Connect, yield the caller's session."""
    if is_remote():
        yield spark
        return
    session = spark.newSession()
    for name, value in UNCOMPILED.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", str(min(8, spark.sparkContext.defaultParallelism)))
    try:
        yield session
    finally:
        # Creating a frame makes its session the active one, which restores the caller's.
        spark.createDataFrame([], "nothing int")
