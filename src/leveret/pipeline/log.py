"""The log of a warehouse: a list of commits, and the state that they add up to.

A commit is a small file of JSON with the next number. Its creation makes the change: of two processes that create the
same number, one fails. A snapshot holds the sum of all commits up to one of them, so that they need not be read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

INGEST: Final = "ingest"
UPDATE: Final = "update"
COMPACT: Final = "compact"


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
class State:
    """The current content of the warehouse after `number` commits."""

    number: int = 0
    files: dict[str, FileState] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)

    def apply(self, number: int, commit: Mapping[str, Any]) -> None:
        """Apply the next commit."""
        self.number = number
        changes = {INGEST: self._ingest, UPDATE: self._update, COMPACT: self._compact}
        kind = commit["kind"]
        assert kind in changes, f"a commit of kind {kind!r} was written by a newer leveret"
        changes[kind](commit)

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
        return [run for run in self.answers[part].runs if self.runs[run].answer == part]

    def refused(self) -> dict[str, dict[str, FileState]]:
        """Return the refused files by the run in which they count, and by path."""
        found: dict[str, dict[str, FileState]] = {}
        for path, file in self.files.items():
            if file.problem is not None:
                found.setdefault(file.run, {})[path] = file
        return found

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
            run.segments += [Segment(*segment) for segment in added["segments"]]
            run.revision = self.number
            run.events += added["events"]
            for worker, count in added["files"].items():
                run.files[worker] = run.files.get(worker, 0) + count

    def _update(self, commit: Mapping[str, Any]) -> None:
        for part, answer in commit["parts"].items():
            self.answers[part] = Answer(dict(answer["tables"]), list(answer["runs"]), dict(answer["added"]))
            for name, revision in answer["runs"].items():
                self.runs[name].answer = part
                self.runs[name].answered_revision = revision
        self._forget_empty()

    def _compact(self, commit: Mapping[str, Any]) -> None:
        for name, moved in commit["runs"].items():
            run, gone = self.runs[name], set(commit["segments"])
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

    def _forget_empty(self) -> None:
        used = {run.answer for run in self.runs.values()}
        self.answers = {part: answer for part, answer in self.answers.items() if part in used}

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return asdict(self)

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> State:
        """Return the state that `to_json` wrote."""
        runs = {
            name: RunState(**{**run, "segments": [Segment(*segment) for segment in run["segments"]]})
            for name, run in content["runs"].items()
        }
        return cls(
            content["number"],
            {path: FileState(**file) for path, file in content["files"].items()},
            runs,
            {part: Answer(**answer) for part, answer in content["answers"].items()},
        )


def file_entry(file: FileState) -> dict[str, Any]:
    """Return a file as it stands in a commit."""
    return asdict(file)


def parts_of(segments: Iterable[Segment]) -> list[str]:
    """Return the parts of these segments, each once."""
    return list(dict.fromkeys(segment.part for segment in segments))
