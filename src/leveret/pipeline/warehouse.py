"""A warehouse: a folder of Parquet files, and a log of commits that says which of them are current.

    <warehouse>/_commits/00000012.json        the twelfth commit; creating this file makes the change
    <warehouse>/_commits/00000100.state.json  the sum of the first hundred commits, so that they need not be read again
    <warehouse>/<table>/00000012-5f1e9c3a/    one batch of rows of a table

A writer first writes a batch and then commits it, so a writer that dies changes nothing. A committed batch is never
rewritten: a reader keeps seeing what it began with until `vacuum` removes batches that are long out of use. The unit of
recomputation is a run. The events of a run are in one or more batches (its segments). Its rows of all other tables are
in one batch (its answer), which supersedes older rows of the run elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from leveret.errors import ConflictError
from leveret.pipeline.bronze import STORED_EVENTS, events_among, without_repetitions
from leveret.pipeline.schema import FILES

COMMITS: Final = "_commits"
# The column that names the batch in which a row was written.
BATCH: Final = "_batch"

_SNAPSHOT_EVERY: Final = 100
# Longer lists of runs become a table to join with instead of a condition.
_LONGEST_CONDITION: Final = 500


@dataclass(slots=True)
class FileState:
    """A file as it was when it was ingested; `problem` says why it was refused."""

    size_bytes: int
    modified_ns: int
    problem: str | None = None
    run: str = ""
    worker: str = ""
    day: str | None = None
    is_truncated: bool = False


@dataclass(slots=True)
class RunState:
    """The batches that hold the rows of a run. Its answer is current if it was computed from the last revision."""

    segments: list[str] = field(default_factory=list)
    # The number of files that hold each worker. If there are several, an event may occur twice.
    files: dict[str, int] = field(default_factory=dict)
    events: int = 0
    # The number of the commit that last changed the run.
    revision: int = 0
    answer: str | None = None
    answered_revision: int = 0


@dataclass(slots=True)
class Answer:
    """A batch of computed rows: its tables and its runs."""

    tables: list[str]
    runs: list[str]


@dataclass(slots=True)
class State:
    """The current content of the warehouse after `number` commits."""

    number: int = 0
    files: dict[str, FileState] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)

    def apply(self, number: int, commit: Mapping[str, Any]) -> None:
        """Apply the next commit."""
        self.number = number
        kind = commit["kind"]
        if kind == "ingest":
            self._ingest(commit)
        elif kind == "update":
            self._answer(commit["batch"], commit["tables"], commit["runs"])
        else:
            assert kind == "compact", f"a commit of kind {kind!r} was written by a newer leveret"
            self._compact(commit)

    def stale(self, tables: Iterable[str]) -> list[str]:
        """Return the runs whose answer is missing, out of date, or lacks one of these tables."""
        wanted = set(tables)
        complete = {batch for batch, answer in self.answers.items() if wanted <= set(answer.tables)}
        return [
            name
            for name, run in self.runs.items()
            if run.answered_revision != run.revision or run.answer not in complete
        ]

    def segments(self) -> dict[str, None]:
        """Return the current batches of events."""
        return {segment: None for run in self.runs.values() for segment in run.segments}

    def superseded(self) -> list[tuple[str, str]]:
        """Return the pairs of batch and run whose rows are superseded."""
        return [
            (batch, run) for batch, answer in self.answers.items() for run in answer.runs if self._moved(run, batch)
        ]

    def _moved(self, run: str, batch: str) -> bool:
        return self.runs[run].answer != batch

    def _ingest(self, commit: Mapping[str, Any]) -> None:
        for path, entry in commit["files"].items():
            before = self.files.get(path)
            # If a refused file comes again, the run in which it was counted has one refusal less.
            if before is not None and before.problem is not None:
                self.runs[before.run].revision = self.number
            self.files[path] = FileState(**entry)
            if self.files[path].problem is not None:
                self.runs.setdefault(self.files[path].run, RunState()).revision = self.number
        for name, added in commit["runs"].items():
            run = self.runs.setdefault(name, RunState())
            run.segments.append(commit["batch"])
            run.revision = self.number
            run.events += added["events"]
            for worker, count in added["files"].items():
                run.files[worker] = run.files.get(worker, 0) + count

    def _answer(self, batch: str, tables: list[str], runs: Mapping[str, int]) -> None:
        self.answers[batch] = Answer(list(tables), list(runs))
        for name, revision in runs.items():
            self.runs[name].answer = batch
            self.runs[name].answered_revision = revision
        self._forget_empty()

    def _compact(self, commit: Mapping[str, Any]) -> None:
        batch = commit["batch"]
        merged = set(commit["segments"])
        for run in self.runs.values():
            if merged.intersection(run.segments):
                if merged.issuperset(run.segments):
                    run.files = dict.fromkeys(run.files, 1)
                run.segments = [segment for segment in run.segments if segment not in merged] + [batch]
        left = set(commit["answers"])
        moved = [name for name, run in self.runs.items() if run.answer in left]
        if moved:
            self.answers[batch] = Answer(commit["tables"], moved)
            for name in moved:
                self.runs[name].answer = batch
            self._forget_empty()

    def _forget_empty(self) -> None:
        used = {run.answer for run in self.runs.values()}
        self.answers = {batch: answer for batch, answer in self.answers.items() if batch in used}

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return asdict(self)

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> State:
        """Return the state that `to_json` wrote."""
        return cls(
            content["number"],
            {path: FileState(**file) for path, file in content["files"].items()},
            {name: RunState(**run) for name, run in content["runs"].items()},
            {batch: Answer(**answer) for batch, answer in content["answers"].items()},
        )


class Warehouse:
    """The warehouse in a folder. The driver and Spark's executors must both be able to access it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder: Final = Path(folder).absolute()

    def __repr__(self) -> str:
        return f"Warehouse({str(self.folder)!r})"

    @property
    def exists(self) -> bool:
        """Whether anything was ever committed here."""
        return (self.folder / COMMITS).is_dir()

    def state(self) -> State:
        """Return the current state."""
        newest, numbers = 0, []
        for name in os.listdir(self.folder / COMMITS) if self.exists else []:
            if name.endswith(".state.json"):
                newest = max(newest, int(name[:8]))
            elif name.endswith(".json"):
                numbers.append(int(name[:8]))
        state = State.of_json(self._read(f"{newest:08d}.state.json")) if newest else State()
        for number in sorted(numbers):
            if number > newest:
                state.apply(number, self._read(f"{number:08d}.json"))
        return state

    def new_batch(self, state: State) -> str:
        """Return a unique name for a batch."""
        return f"{state.number + 1:08d}-{token_hex(4)}"

    def commit(self, commit: Mapping[str, Any], *, after: int | None = None) -> int:
        """Write a commit atomically, and return its number.

        With `after`, it must be the commit after that one. Raises ConflictError if another process was faster.
        """
        folder = self.folder / COMMITS
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{token_hex(8)}"
        _write(draft, commit)
        try:
            number = (self.state().number if after is None else after) + 1
            while not _is_first(draft, folder / f"{number:08d}.json"):
                if after is not None:
                    raise ConflictError(f"{self.folder} was changed by another process meanwhile")
                number += 1
        finally:
            draft.unlink()
        if number % _SNAPSHOT_EVERY == 0:
            self.write_state()
        return number

    def write_state(self) -> None:
        """Write a snapshot of all commits, so that they need not be read again."""
        state = self.state()
        draft = self.folder / COMMITS / f".{token_hex(8)}"
        _write(draft, state.to_json())
        draft.replace(self.folder / COMMITS / f"{state.number:08d}.state.json")

    def place(self, table: str, batch: str) -> str:
        """Return the folder of a batch of a table."""
        return str(self.folder / table / batch)

    def events(self, spark: SparkSession, state: State, runs: Iterable[str] | None = None) -> DataFrame:
        """Return the events of these runs, or of all, each once."""
        wanted = {name: state.runs[name] for name in (state.runs if runs is None else runs)}
        segments = {segment: None for run in wanted.values() for segment in run.segments}
        stored = self.scan(spark, "events", segments, STORED_EVENTS)
        others = [
            name
            for name, run in state.runs.items()
            if name not in wanted and not segments.keys().isdisjoint(run.segments)
        ]
        if others:
            stored = only(stored, list(wanted), others)
        repeated = [name for name, run in wanted.items() if is_repeated(run)]
        if not repeated:
            return events_among(stored)
        once = [name for name in wanted if name not in set(repeated)]
        again = without_repetitions(only(stored, repeated, once))
        return again if not once else events_among(only(stored, once, repeated)).unionByName(again)

    def files(self, spark: SparkSession, state: State, runs: Iterable[str]) -> DataFrame:
        """Return the rows of FILES for these runs, from the last ingest of each file."""
        wanted = list(runs)
        segments = {segment: None for name in wanted for segment in state.runs[name].segments}
        rows = self.scan(spark, "files", segments, FILES)
        others = [name for name in state.runs if name not in set(wanted)]
        return latest_files(only(rows, wanted, others) if others else rows)

    def rows(
        self, spark: SparkSession, state: State, table: str, columns: StructType, runs: Iterable[str] | None = None
    ) -> DataFrame:
        """Return the current rows of a stored table, for these runs or for every run with an answer."""
        wanted = [name for name in (state.runs if runs is None else runs) if state.runs[name].answer is not None]
        batches = {
            batch: None
            for batch in (state.runs[name].answer for name in wanted)
            if batch is not None and table in state.answers[batch].tables
        }
        stored = StructType([*columns.fields, StructField(BATCH, StringType())])
        found = self.scan(spark, table, batches, stored)
        if runs is not None:
            found = only(found, wanted, [name for name in state.runs if name not in set(wanted)])
        superseded = [pair for pair in state.superseded() if pair[0] in batches]
        if superseded:
            gone = spark.createDataFrame(superseded, f"{BATCH} string, run string")
            found = found.join(F.broadcast(gone), [BATCH, "run"], "left_anti")
        return found.select(columns.fieldNames())

    def vacuum(self, *, older_than_s: float = 86400.0) -> tuple[int, int]:
        """Remove unused batches, and commits that are in a snapshot. Return the number of batches and bytes removed.

        Files younger than `older_than_s` seconds stay, because another process may still write or read them.
        """
        state = self.state()
        used = state.segments().keys() | state.answers.keys()
        newest = time.time() - older_than_s
        removed, removed_bytes = 0, 0
        for batch in self._batches():
            if batch.name not in used and batch.stat().st_mtime <= newest:
                removed += 1
                removed_bytes += size_of(batch)
                shutil.rmtree(batch)
        self._forget_commits(newest)
        return removed, removed_bytes

    def _forget_commits(self, newest: float) -> None:
        names = sorted(os.listdir(self.folder / COMMITS))
        states = [name for name in names if name.endswith(".state.json")]
        for name in names:
            path = self.folder / COMMITS / name
            is_draft = name.startswith(".")
            if (is_draft or (states and name < states[-1][:8])) and path.stat().st_mtime <= newest:
                path.unlink()

    def _batches(self) -> Iterator[Path]:
        for table in self.folder.iterdir():
            if table.name != COMMITS and table.is_dir():
                yield from (batch for batch in table.iterdir() if batch.is_dir())

    def scan(self, spark: SparkSession, table: str, batches: Iterable[str], columns: StructType) -> DataFrame:
        """Return all rows of these batches, including superseded ones."""
        places = [self.place(table, batch) for batch in batches]
        if not places:
            return spark.createDataFrame([], columns)
        return spark.read.option("__globPaths__", "false").schema(columns).parquet(*places)

    def _read(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / COMMITS / name).read_text(encoding="utf-8"))
        return content


def write_rows(rows: DataFrame, place: str, *, overwrite: bool = False) -> None:
    """Write rows into a folder, as Parquet.

    Columns of eight-byte numbers (sequence numbers, instants, counts) get no dictionary. Most of their values occur
    once, so a dictionary would take a third of the writing time and save no space.
    """
    writer = rows.write.mode("overwrite" if overwrite else "error").option("compression", "zstd")
    for column in rows.schema:
        if isinstance(column.dataType, LongType):
            writer = writer.option(f"parquet.enable.dictionary#{column.name}", "false")
    writer.parquet(place)


def latest_files(rows: DataFrame) -> DataFrame:
    """Return the row of the last ingest for each file, run and worker."""
    key = ["file", "run", "worker"]
    last = rows.groupBy(*key).agg(F.max_by(F.struct(FILES.fieldNames()), "ingest").alias("row"))
    return last.select("row.*")


def is_repeated(run: RunState) -> bool:
    """Return whether an event of this run may occur twice in its segments."""
    return max(run.files.values(), default=0) > 1


def only(rows: DataFrame, wanted: list[str], others: list[str]) -> DataFrame:
    """Return the rows of the wanted runs. All other runs in `rows` must be in `others`; the shorter list is used."""
    names, how = (wanted, "left_semi") if len(wanted) <= len(others) else (others, "left_anti")
    if len(names) <= _LONGEST_CONDITION:
        is_named = F.col("run").isin(names)
        return rows.where(is_named if how == "left_semi" else ~is_named)
    table = rows.sparkSession.createDataFrame([(name,) for name in names], "run string")
    return rows.join(F.broadcast(table), "run", how)


def size_of(batch: Path) -> int:
    """Return the size of the files in a folder, in bytes."""
    return sum(file.stat().st_size for file in batch.rglob("*") if file.is_file())


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with open(path, "x", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())


def _is_first(draft: Path, place: Path) -> bool:
    """Link a draft to its place, and return False if another commit has taken it."""
    try:
        os.link(draft, place)
    except FileExistsError:
        return False
    return True
