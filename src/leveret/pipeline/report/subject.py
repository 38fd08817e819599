"""What a report is about: a run, or a commit with all its runs; and what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.errors import NoSuchRunError


@dataclass(frozen=True, slots=True)
class Subject:
    """Runs that are spoken of as one: `name` is that of the run or of the commit."""

    name: str
    runs: tuple[str, ...]
    is_commit: bool
    commit: str | None
    # When the first of them began; None where no header says it.
    began: str | None

    def __str__(self) -> str:
        return f"commit {self.name}" if self.is_commit else f"run {self.name}"


# From so many characters on the beginning of a run or commit stands for it.
_LEAST: Final = 4


def choose(runs: DataFrame, name: str | None) -> Subject:
    """The run or commit of that name, or the only one that begins so; without one the newest run.

    Raises NoSuchRunError.
    """
    known = _known(runs)
    if name is None:
        newest = known.orderBy(*_newest_first()).limit(1).collect()
        if not newest:
            raise NoSuchRunError("no trace could be used: there is nothing to report")
        row = newest[0]
        return Subject(row.run, (row.run,), False, row.commit, row.started)
    begin = name if len(name) >= _LEAST else None
    is_called = (F.col("run") == name) | (F.col("commit") == name)
    begins = F.col("run").startswith(F.lit(begin)) | F.col("commit").startswith(F.lit(begin))
    found = known.where(is_called | begins).orderBy("began", "run").collect()
    called = _only(name, {row.run for row in found}, {row.commit for row in found if row.commit is not None}, begin)
    if called is None:
        newest = known.orderBy(*_newest_first()).limit(5).collect()
        there = [row.run if row.commit is None else f"{row.run} of commit {row.commit[:12]}" for row in newest]
        raise NoSuchRunError(
            f"no run and no commit is called {name!r}, nor begins so; the newest runs are {', '.join(there)}"
        )
    rows = [row for row in found if row.run == called] or [row for row in found if row.commit == called]
    is_run = rows[0].run == called
    return Subject(called, tuple(row.run for row in rows), not is_run, rows[0].commit, rows[0].started)


def _only(name: str, runs: set[str], commits: set[str], begin: str | None) -> str | None:
    """The one of these that is called so, else the one that begins so."""
    if name in runs or name in commits:
        return name
    if begin is None:
        return None
    for kind, names in (("commits", commits), ("runs", runs)):
        near = sorted(one for one in names if one.startswith(begin))
        if len(near) > 1:
            raise NoSuchRunError(f"{name!r} begins several {kind}: {', '.join(near)}")
        if near:
            return near[0]
    return None


def before(runs: DataFrame, subject: Subject) -> Subject | None:
    """The newest run that began before this one; of a commit, the commit that the newest such run was of."""
    if subject.began is None:
        return None
    known = _known(runs).where(F.col("began") < F.try_to_timestamp(F.lit(subject.began)))
    others = known.where(~F.col("run").isin(list(subject.runs)))
    if subject.is_commit:
        others = others.where(F.col("commit") != subject.name)
    rows = others.orderBy(*_newest_first()).limit(1).collect()
    if not rows:
        return None
    return choose(runs, rows[0].commit if subject.is_commit else rows[0].run)


def _known(runs: DataFrame) -> DataFrame:
    """A row for each run that has anything to tell."""
    told = runs.where((F.col("files") > 0) & (F.col("run") != "")).groupBy("run")
    known = told.agg(F.max("commit").alias("commit"), F.min("started").alias("started"), F.min("day").alias("day"))
    return known.withColumn("began", F.try_to_timestamp("started"))


def _newest_first() -> list[Column]:
    return [F.col("began").desc_nulls_last(), F.col("day").desc_nulls_last(), F.col("run").desc()]
