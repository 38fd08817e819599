"""The log of a warehouse: a list of commits, and the state that they add up to.

A commit is a small file of JSON with the next number. Its creation makes the change: of two processes that create the
same number, one fails. A snapshot holds the sum of all commits up to one of them, so that they need not be read again:
JSON in gzip, with a list of values for each file, run and answer.
"""

from __future__ import annotations

import gc
import gzip
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, NamedTuple

INGEST: Final = "ingest"
UPDATE: Final = "update"
COMPACT: Final = "compact"
EXPIRE: Final = "expire"
KEEP: Final = "keep"

# The version of the log's format, which every commit names.
VERSION: Final = 3


@dataclass(slots=True)
class FileState:
    """A trace file as it was when it was ingested; `problem` says why it was refused."""

    size_bytes: int
    modified_ns: int
    problem: str | None = None
    run: str = ""
    worker: str = ""
    day: str | None = None
    is_truncated: bool = False


class Segment(NamedTuple):
    """Where events of a run are: row groups from `first` on in the file of a part. They may hold other runs, too."""

    part: str
    first: int
    groups: int


@dataclass(slots=True)
class RunState:
    """Where the rows of a run are. Its answer is current if it was computed from the last revision."""

    segments: list[Segment] = field(default_factory=list)
    # The number of files that hold each worker. If there are several, an event may occur twice.
    files: dict[str, int] = field(default_factory=dict)
    events: int = 0
    # The number of the commit that last changed the run.
    revision: int = 0
    # The part with its rows of all tables.
    answer: str | None = None
    answered_revision: int = 0
    # The number of the commit whose update computed the answer. A merge does not change it.
    answer_number: int = 0
    # The UTC date on which it began, or if no file says so, on which it was first ingested.
    day: str = ""

    @property
    def is_repeated(self) -> bool:
        """Whether several files hold the same worker, so that an event may occur twice."""
        return any(count > 1 for count in self.files.values())


@dataclass(slots=True)
class Answer:
    """A part of computed tables: its runs, and the number of its rows of each table. A table without rows has no file.

    `added` names the folder of each table that a user's own code built for these runs.
    """

    tables: dict[str, int]
    runs: list[str]
    added: dict[str, str] = field(default_factory=dict)

    def has(self, tables: Collection[str]) -> bool:
        """Return whether all these tables were computed."""
        return all(name in self.tables or name in self.added for name in tables)


@dataclass(slots=True)
class Contents:
    """The current content of the warehouse after `number` commits."""

    number: int = 0
    files: dict[str, FileState] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    # Runs that began before this UTC date have expired. They are gone, and a late file does not bring them back.
    expired_before: str = ""
    # How many days each update keeps runs for; None for ever.
    keep_days: int | None = None

    def apply(self, number: int, commit: Mapping[str, Any]) -> None:
        """Apply the next commit. Raises ValueError if another version of leveret has written it."""
        changes = {
            INGEST: self._ingest,
            UPDATE: self._update,
            COMPACT: self._compact,
            EXPIRE: self._expire,
            KEEP: self._keep,
        }
        kind = commit.get("kind")
        if commit.get("v") != VERSION or kind not in changes:
            raise ValueError(_another_version(f"commit {number} ({kind})"))
        self.number = number
        changes[kind](commit)

    def has_expired(self, run: str, day: str | None) -> bool:
        """Return whether what is ingested of this run, which began on this date, has no effect."""
        return day is not None and day < self.expired_before and run not in self.runs

    def stale(self, tables: Collection[str]) -> list[str]:
        """Return the runs whose answer is missing, out of date, or lacks one of these tables."""
        complete = {part for part, answer in self.answers.items() if answer.has(tables)}
        return [
            name
            for name, run in self.runs.items()
            if run.answered_revision != run.revision or run.answer not in complete
        ]

    def event_parts(self) -> dict[str, list[str]]:
        """Return the parts that hold events, each with its runs."""
        parts: dict[str, list[str]] = {}
        for name, run in self.runs.items():
            for part in dict.fromkeys(segment.part for segment in run.segments):
                parts.setdefault(part, []).append(name)
        return parts

    def live_runs(self, part: str) -> list[str]:
        """Return the runs whose current rows are in this part of computed tables."""
        return [run for run in self.answers[part].runs if run in self.runs and self.runs[run].answer == part]

    def repeated(self, runs: Iterable[str]) -> list[str]:
        """Return which of these runs have several files for a worker, so that an event may occur twice."""
        return [name for name in runs if self.runs[name].is_repeated]

    def refused(self) -> dict[str, dict[str, FileState]]:
        """Return the refused files by the run in which they count, and by path."""
        by_run: dict[str, dict[str, FileState]] = {}
        for path, file in self.files.items():
            if file.problem is not None:
                by_run.setdefault(file.run, {})[path] = file
        return by_run

    def _ingest(self, commit: Mapping[str, Any]) -> None:
        files = {path: FileState(**stored["file"]) for path, stored in commit["files"].items()}
        days = days_of(files.values())
        for path, file in files.items():
            self._change_refusals(self.files.get(path))
            self.files[path] = file
            if self.has_expired(file.run, days[file.run]):
                continue
            run = self._run(file.run, days[file.run] or commit["at"][:10])
            run.revision = self.number
            if file.problem is None:
                self._add(run, file.worker, commit["files"][path])

    def _add(self, run: RunState, worker: str, stored: Mapping[str, Any]) -> None:
        """Add what a file holds to its run. Files of a run may share row groups."""
        segment = Segment(*stored["segment"])
        run.segments += [] if segment in run.segments else [segment]
        run.events += stored["events"]
        run.files[worker] = run.files.get(worker, 0) + (stored["events"] > 0)

    def _change_refusals(self, before: FileState | None) -> None:
        """If a refused file comes again, the run in which it was counted has one refusal less."""
        if before is not None and before.problem is not None and before.run in self.runs:
            self.runs[before.run].revision = self.number

    def _run(self, name: str, day: str) -> RunState:
        run = self.runs.setdefault(name, RunState())
        run.day = min(run.day or day, day)
        return run

    def _update(self, commit: Mapping[str, Any]) -> None:
        for part, answer in commit["parts"].items():
            self.answers[part] = Answer(dict(answer["tables"]), list(answer["runs"]), dict(answer["added"]))
            for name, revision in answer["runs"].items():
                # A run may have expired while its tables were computed.
                if name in self.runs:
                    self.runs[name].answer = part
                    self.runs[name].answered_revision = revision
                    self.runs[name].answer_number = self.number
        self._forget_empty()

    def _compact(self, commit: Mapping[str, Any]) -> None:
        gone = set(commit["segments"])
        for name, moved in commit["runs"].items():
            run = self.runs[name]
            kept = [segment for segment in run.segments if segment.part not in gone]
            if not kept:
                run.files = dict.fromkeys(run.files, 1)
            run.segments = [*kept, *(Segment(*segment) for segment in moved["segments"])]
            run.events = moved["events"] if not kept else run.events
        for part, answer in commit["parts"].items():
            self.answers[part] = Answer(dict(answer["tables"]), list(answer["runs"]), dict(answer["added"]))
            for name in answer["runs"]:
                self.runs[name].answer = part
        self._forget_empty()

    def _expire(self, commit: Mapping[str, Any]) -> None:
        self.expired_before = max(self.expired_before, commit["before"])
        self.runs = {name: run for name, run in self.runs.items() if run.day >= self.expired_before}
        self._forget_empty()

    def _keep(self, commit: Mapping[str, Any]) -> None:
        self.keep_days = commit["days"]

    def _forget_empty(self) -> None:
        used = {run.answer for run in self.runs.values()}
        self.answers = {part: answer for part, answer in self.answers.items() if part in used}


def days_of(files: Iterable[FileState]) -> dict[str, str | None]:
    """Return the UTC date on which each run of these files began; None if no file says so."""
    days: dict[str, str | None] = {}
    for file in files:
        days[file.run] = min((day for day in (days.get(file.run), file.day) if day), default=None)
    return days


def parts_of(segments: Iterable[Segment]) -> list[str]:
    """Return the parts of these segments, each once."""
    return list(dict.fromkeys(segment.part for segment in segments))


# The mappings of a state, and what each holds.
_KINDS: Final[dict[str, Any]] = {"files": FileState, "runs": RunState, "answers": Answer}
_PLAIN: Final = ("number", "expired_before", "keep_days")


def encode(state: Contents) -> bytes:
    """Return a state as bytes."""
    content: dict[str, Any] = {"v": VERSION, **{name: getattr(state, name) for name in _PLAIN}}
    for name, kind in _KINDS.items():
        values = attrgetter(*(field.name for field in fields(kind)))
        content[name] = {key: values(item) for key, item in getattr(state, name).items()}
    return gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 6)


def decode(snapshot: bytes) -> Contents:
    """Return the state of which `encode` made these bytes. Raises ValueError if another version of leveret did."""
    # Many objects are made, of which none is garbage: the collector would look at them again and again.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _decoded(json.loads(gzip.decompress(snapshot)))
    finally:
        if was_enabled:
            gc.enable()


def _decoded(content: dict[str, Any]) -> Contents:
    if content.get("v") != VERSION:
        raise ValueError(_another_version(f"snapshot {content.get('number')}"))
    state = Contents(**{name: content[name] for name in _PLAIN})
    for name, kind in _KINDS.items():
        setattr(state, name, {key: kind(*values) for key, values in content[name].items()})
    for run in state.runs.values():
        run.segments = [Segment(*segment) for segment in run.segments]
    return state


def _another_version(what: str) -> str:
    """Return the message about a part of the log that this version cannot read."""
    return (
        f"{what} was written by another version of leveret: use that version, or make a new warehouse from the traces"
    )
