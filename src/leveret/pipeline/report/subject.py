"""The subject of a report: a run, or a commit with all its runs; and the one to compare it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.errors import NoSuchRunError


@dataclass(frozen=True, slots=True)
class Subject:
    """A run, or all runs of a commit; `name` is the name of the run or the commit."""

    name: str
    runs: tuple[str, ...]
    is_commit: bool
    commit: str | None
    # The start of the first run; None if no header says it.
    began: str | None

    def __str__(self) -> str:
        return f"commit {self.name}" if self.is_commit else f"run {self.name}"


# The fewest characters with which the beginning of a name may stand for a run or commit.
_LEAST: Final = 4


def choose(runs: DataFrame, name: str | None) -> Subject:
    """Return the run or commit with this name, or the only one whose name begins like it. None selects the newest run.

    Raises NoSuchRunError if no run or commit matches, or several do.
    """
    known = _known(runs)
    if name is None:
        newest = known.orderBy(*_newest_first()).limit(1).collect()
        if not newest:
            raise NoSuchRunError(
                "the warehouse has no run, because no trace could be used; ingest a usable trace first"
            )
        row = newest[0]
        return Subject(row.run, (row.run,), False, row.commit, row.started)
    begin = name if len(name) >= _LEAST else None
    is_named = (F.col("run") == name) | (F.col("commit") == name)
    begins = F.col("run").startswith(F.lit(begin)) | F.col("commit").startswith(F.lit(begin))
    found = known.where(is_named | begins).orderBy("began", "run").collect()
    full = _only(name, {row.run for row in found}, {row.commit for row in found if row.commit is not None}, begin)
    if full is None:
        newest = known.orderBy(*_newest_first()).limit(5).collect()
        names = [row.run if row.commit is None else f"{row.run} of commit {row.commit[:12]}" for row in newest]
        raise NoSuchRunError(
            f"{name!r} matches no run and no commit; give a name or at least its first {_LEAST} characters; the newest "
            f"runs are {', '.join(names)}"
        )
    rows = [row for row in found if row.run == full] or [row for row in found if row.commit == full]
    is_run = rows[0].run == full
    return Subject(full, tuple(row.run for row in rows), not is_run, rows[0].commit, rows[0].started)


def _only(name: str, runs: set[str], commits: set[str], begin: str | None) -> str | None:
    """Return the run or commit with this name, or else the only one whose name begins with `begin`."""
    if name in runs or name in commits:
        return name
    if begin is None:
        return None
    for kind, names in (("commits", commits), ("runs", runs)):
        near = sorted(known for known in names if known.startswith(begin))
        if len(near) > 1:
            raise NoSuchRunError(f"{name!r} matches several {kind}: {', '.join(near)}; give more characters")
        if near:
            return near[0]
    return None


def before(runs: DataFrame, subject: Subject) -> Subject | None:
    """Return the newest run that began before this one. For a commit, return the commit of the newest such run."""
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
    """Return a row for each run that has a usable file."""
    usable = runs.where((F.col("files") > 0) & (F.col("run") != "")).groupBy("run")
    known = usable.agg(F.max("commit").alias("commit"), F.min("started").alias("started"), F.min("day").alias("day"))
    return known.withColumn("began", F.try_to_timestamp("started"))


def _newest_first() -> list[Column]:
    return [F.col("began").desc_nulls_last(), F.col("day").desc_nulls_last(), F.col("run").desc()]
