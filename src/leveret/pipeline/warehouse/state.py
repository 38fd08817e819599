"""The state of a warehouse: what its Delta tables held when it was read.

The table `files` has a row for each trace file as it was ingested, and `runs` a row for each worker of each run whose
tables were computed. Which runs have to be computed follows from these two. All else here is which files of Parquet the
tables have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.pipeline.warehouse.parts import DataFile

if TYPE_CHECKING:
    from deltalake import DeltaTable


class FileState(NamedTuple):
    """A trace file as it was when it was ingested; `problem` says why it was refused."""

    size_bytes: int
    modified_ns: int
    problem: str | None = None
    run: str = ""
    worker: str = ""
    # The UTC date on which it began, or if its header does not say, on which it was ingested.
    since: str = ""
    is_truncated: bool = False
    events: int = 0
    # The events of which an earlier file of the same worker says other things.
    conflicts: int = 0
    # Of several rows of a path, the greatest number counts.
    ingest: int = 0


# Later than any date.
NEVER: Final = "~"


@dataclass(slots=True)
class RunState:
    """A run: its files, and what its tables were computed from. If its only file was refused and came again, it has
    none."""

    files: dict[str, FileState] = field(default_factory=dict)
    # What the row in `runs` names; None without one.
    answered: Answered | None = None

    @property
    def events(self) -> int:
        """The number of events in its files. An event that several of them hold counts in each."""
        return sum(file.events for file in self.files.values())

    @property
    def day(self) -> str:
        """The UTC date on which the last of its files began; NEVER without a file."""
        return max((file.since for file in self.files.values()), default=NEVER)

    @property
    def revision(self) -> str:
        """A digest of its files."""
        told = sorted((path, of.size_bytes, of.modified_ns, of.problem or "") for path, of in self.files.items())
        return blake2b(repr(told).encode(errors="surrogatepass"), digest_size=8).hexdigest()


class Answered(NamedTuple):
    """What the tables of a run were computed from, and which ones they are."""

    revision: str
    tables: frozenset[str]


@dataclass(slots=True)
class Stored:
    """A Delta table and the files that it has at this version."""

    table: DeltaTable
    files: list[DataFile]

    def may_hold(self, runs: Iterable[str]) -> list[DataFile]:
        """Return the files that can hold rows of one of these runs."""
        ordered = sorted(runs)
        return [file for file in self.files if file.may_hold(ordered)]


@dataclass(slots=True)
class Contents:
    """The content of a warehouse. It is empty if there is none."""

    tables: dict[str, Stored] = field(default_factory=dict)
    # The trace files by path, each as it was ingested last.
    files: dict[str, FileState] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)
    # Runs that have expired, of which there still are rows.
    leftovers: list[str] = field(default_factory=list)
    # Runs that began before this UTC date have expired. They are gone, and a late file does not bring them back.
    expired_before: str = ""
    # How many days each update keeps runs for; None for ever.
    keep_days: int | None = None

    def stale(self, tables: Collection[str]) -> list[str]:
        """Return the runs whose tables are missing, out of date, or lack one of these."""
        return [
            name
            for name, run in self.runs.items()
            if run.answered is None
            or run.answered.revision != run.revision
            or not run.answered.tables.issuperset(tables)
        ]

    def answered(self) -> list[str]:
        """Return the runs whose tables a reader sees."""
        return [name for name, run in self.runs.items() if run.answered is not None]

    def files_of(self, table: str) -> list[DataFile]:
        """Return the files of a table."""
        return self.tables[table].files if table in self.tables else []

    def holding(self, table: str, runs: Iterable[str]) -> list[DataFile]:
        """Return the files of a table that can hold rows of one of these runs."""
        return self.tables[table].may_hold(runs) if table in self.tables else []


def current(rows: Iterable[tuple[str, FileState]]) -> tuple[dict[str, FileState], dict[str, RunState]]:
    """Return the trace files by path, and by run. Each row is one that `files` has for a path.

    Of rows with one path, run and worker, the last counts. A refusal no longer counts once its path came again.
    """
    files: dict[str, FileState] = {}
    runs: dict[str, RunState] = {}
    for path, file in sorted(rows, key=lambda row: row[1].ingest):
        before = files.get(path)
        if before is not None and before.problem is not None:
            del runs[before.run].files[path]
        files[path] = file
        runs.setdefault(file.run, RunState()).files[path] = file
    return files, runs


def expired(runs: Mapping[str, RunState], before: str) -> list[str]:
    """Return the runs that began before a UTC date."""
    return [name for name, run in runs.items() if run.day < before]
