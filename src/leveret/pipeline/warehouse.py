"""A warehouse: a folder of Parquet files, and a log of commits that says which of them count.

    <warehouse>/_commits/00000012.json        what the twelfth change did; whoever creates it has made the change
    <warehouse>/_commits/00000100.state.json  the sum of the first hundred, so that they need not be read again
    <warehouse>/<table>/00000012-5f1e9c3a/    one batch of rows of a table

A batch is written first and named by a commit afterwards, so a writer that dies leaves nothing that counts. Nothing
that counts is ever written again: a reader keeps what it began with until `vacuum` removes what is long out of use.
The unit of recomputation is a run. Events of a run stand in one or more batches (its segments); its rows of all other
tables stand in one batch (its answer), and older rows of it elsewhere no longer count.
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
# Rows of a table say which batch they were written in.
BATCH: Final = "_batch"

_SNAPSHOT_EVERY: Final = 100
# From here on a list of runs is a table to join with, not a condition.
_LONGEST_CONDITION: Final = 500


@dataclass(slots=True)
class FileState:
    """A file that was ingested, as it was then; `problem` says why it was refused."""

    size_bytes: int
    modified_ns: int
    problem: str | None = None
    run: str = ""
    worker: str = ""
    day: str | None = None
    is_truncated: bool = False


@dataclass(slots=True)
class RunState:
    """Where the rows of a run are. It is answered when the answer was computed from its last revision."""

    segments: list[str] = field(default_factory=list)
    # How many files told of each worker; more than one may tell an event twice.
    files: dict[str, int] = field(default_factory=dict)
    events: int = 0
    # The number of the commit that last changed what is known of it.
    revision: int = 0
    answer: str | None = None
    answered_revision: int = 0


@dataclass(slots=True)
class Answer:
    """A batch of rows of all tables: which tables, and of which runs."""

    tables: list[str]
    runs: list[str]


@dataclass(slots=True)
class State:
    """What counts after `number` commits."""

    number: int = 0
    files: dict[str, FileState] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)

    def apply(self, number: int, commit: Mapping[str, Any]) -> None:
        """Take in the next commit."""
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
        """The runs whose answer is missing, out of date, or lacks one of these tables."""
        wanted = set(tables)
        complete = {batch for batch, answer in self.answers.items() if wanted <= set(answer.tables)}
        return [
            name
            for name, run in self.runs.items()
            if run.answered_revision != run.revision or run.answer not in complete
        ]

    def segments(self) -> dict[str, None]:
        """The batches of events that count."""
        return {segment: None for run in self.runs.values() for segment in run.segments}

    def superseded(self) -> list[tuple[str, str]]:
        """Batches and runs whose rows there no longer count."""
        return [(batch, run) for batch, answer in self.answers.items() for run in answer.runs if self._left(run, batch)]

    def _left(self, run: str, batch: str) -> bool:
        return self.runs[run].answer != batch

    def _ingest(self, commit: Mapping[str, Any]) -> None:
        for path, told in commit["files"].items():
            before = self.files.get(path)
            # A file that was refused and came again: the run it was counted in has one refusal less.
            if before is not None and before.problem is not None:
                self.runs[before.run].revision = self.number
            self.files[path] = FileState(**told)
            if self.files[path].problem is not None:
                self.runs.setdefault(self.files[path].run, RunState()).revision = self.number
        for name, told in commit["runs"].items():
            run = self.runs.setdefault(name, RunState())
            run.segments.append(commit["batch"])
            run.revision = self.number
            run.events += told["events"]
            for worker, count in told["files"].items():
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
        """This state as JSON holds it."""
        return asdict(self)

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> State:
        """The state that `to_json` told of."""
        return cls(
            told["number"],
            {path: FileState(**file) for path, file in told["files"].items()},
            {name: RunState(**run) for name, run in told["runs"].items()},
            {batch: Answer(**answer) for batch, answer in told["answers"].items()},
        )


class Warehouse:
    """The warehouse in this folder, which the driver and Spark's executors both see."""

    def __init__(self, folder: str | Path) -> None:
        self.folder: Final = Path(folder).absolute()

    def __repr__(self) -> str:
        return f"Warehouse({str(self.folder)!r})"

    @property
    def exists(self) -> bool:
        """Whether anything was ever committed here."""
        return (self.folder / COMMITS).is_dir()

    def state(self) -> State:
        """What counts now."""
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
        """A name for a batch that nobody else has."""
        return f"{state.number + 1:08d}-{token_hex(4)}"

    def commit(self, commit: Mapping[str, Any], *, after: int | None = None) -> int:
        """Make this change, all of it or nothing, and return its number.

        Raises ConflictError when it has to be the one after `after` and somebody else was faster.
        """
        folder = self.folder / COMMITS
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{token_hex(8)}"
        _write(draft, commit)
        try:
            number = (self.state().number if after is None else after) + 1
            while not _is_first(draft, folder / f"{number:08d}.json"):
                if after is not None:
                    raise ConflictError(f"{self.folder} was changed by somebody else meanwhile")
                number += 1
        finally:
            draft.unlink()
        if number % _SNAPSHOT_EVERY == 0:
            self.write_state()
        return number

    def write_state(self) -> None:
        """Write down the sum of all commits, so that nobody needs to read them again."""
        state = self.state()
        draft = self.folder / COMMITS / f".{token_hex(8)}"
        _write(draft, state.to_json())
        draft.replace(self.folder / COMMITS / f"{state.number:08d}.state.json")

    def place(self, table: str, batch: str) -> str:
        """The folder of a batch of this table."""
        return str(self.folder / table / batch)

    def events(self, spark: SparkSession, state: State, runs: Iterable[str] | None = None) -> DataFrame:
        """The events of these runs, or of all, each once."""
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
        """The rows of FILES that tell of these runs: of each file what it said last."""
        wanted = list(runs)
        segments = {segment: None for name in wanted for segment in state.runs[name].segments}
        rows = self.scan(spark, "files", segments, FILES)
        others = [name for name in state.runs if name not in set(wanted)]
        return latest_files(only(rows, wanted, others) if others else rows)

    def rows(
        self, spark: SparkSession, state: State, table: str, columns: StructType, runs: Iterable[str] | None = None
    ) -> DataFrame:
        """The rows of a stored table that count, of these runs or of all that have an answer."""
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
        """Remove batches that nothing names, and commits that a snapshot sums up; return batches and bytes removed.

        What is younger than `older_than_s` seconds stays: somebody may still write or read it.
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
        """All rows of these batches, those that no longer count too."""
        places = [self.place(table, batch) for batch in batches]
        if not places:
            return spark.createDataFrame([], columns)
        return spark.read.option("__globPaths__", "false").schema(columns).parquet(*places)

    def _read(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / COMMITS / name).read_text(encoding="utf-8"))
        return content


def write_rows(rows: DataFrame, place: str, *, overwrite: bool = False) -> None:
    """Write these rows into a folder, as Parquet.

    Numbers of eight bytes are sequence numbers, instants and counts: looking for each in a dictionary, to find in the
    end that most are there once, costs a third of the writing, and saves no space.
    """
    writer = rows.write.mode("overwrite" if overwrite else "error").option("compression", "zstd")
    for column in rows.schema:
        if isinstance(column.dataType, LongType):
            writer = writer.option(f"parquet.enable.dictionary#{column.name}", "false")
    writer.parquet(place)


def latest_files(rows: DataFrame) -> DataFrame:
    """Of each file, run and worker the row of the last ingest."""
    key = ["file", "run", "worker"]
    last = rows.groupBy(*key).agg(F.max_by(F.struct(FILES.fieldNames()), "ingest").alias("row"))
    return last.select("row.*")


def is_repeated(run: RunState) -> bool:
    """Whether an event of this run may stand in its segments twice."""
    return max(run.files.values(), default=0) > 1


def only(rows: DataFrame, wanted: list[str], others: list[str]) -> DataFrame:
    """The rows of the wanted runs, where no run but these and the others occurs: by the shorter of the two lists."""
    names, how = (wanted, "left_semi") if len(wanted) <= len(others) else (others, "left_anti")
    if len(names) <= _LONGEST_CONDITION:
        is_named = F.col("run").isin(names)
        return rows.where(is_named if how == "left_semi" else ~is_named)
    table = rows.sparkSession.createDataFrame([(name,) for name in names], "run string")
    return rows.join(F.broadcast(table), "run", how)


def size_of(batch: Path) -> int:
    """The bytes of the files in this folder."""
    return sum(file.stat().st_size for file in batch.rglob("*") if file.is_file())


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with open(path, "x", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())


def _is_first(draft: Path, place: Path) -> bool:
    """Give the draft its place, unless somebody has it."""
    try:
        os.link(draft, place)
    except FileExistsError:
        return False
    return True
