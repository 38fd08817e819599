"""Work on a warehouse, divided into pieces for an engine: so many files, runs or parts for each task."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leveret.pipeline.computing.engines import Engine, ProcessEngine, SparkEngine
from leveret.pipeline.progress import Progress
from leveret.pipeline.sources import guessed_events
from leveret.pipeline.warehouse.log import FileState, State
from leveret.pipeline.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The events that one task works on. A task needs about a third of a gigabyte for as many.
EVENTS_A_TASK: Final = 400_000
# Up to this many events, starting a process takes longer than the work.
_FEW_EVENTS: Final = 100_000

# What is said of each task.
_SAID: Final = {
    "ingest": "ingesting",
    "update": "computing tables",
    "compact_events": "merging events",
    "compact_tables": "merging tables",
}
# A piece of work as JSON, and its events.
_Piece = tuple[str, int]
# Returns how many tasks run at the same time. With Spark Connect that takes a query, so only large work needs it.
_Width = Callable[[], int]
# What a task returns.
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done to a warehouse in this state, and where."""

    warehouse: Warehouse
    state: State
    engine: Engine
    progress: Progress

    @classmethod
    def on(
        cls,
        warehouse: Warehouse,
        state: State,
        spark: SparkSession | None,
        processes: int | None,
        progress: Progress,
    ) -> Work:
        """Return work for Spark if there is a session, and else for processes of this machine."""
        engine = ProcessEngine(processes) if spark is None else SparkEngine(spark)
        return cls(warehouse, state, engine, progress)

    def ingest(self, paths: Iterable[Path]) -> list[Result]:
        """Store the events of these files."""
        sizes = {str(path): guessed_events(str(path), path.stat().st_size) for path in paths}
        pieces = [
            (self._piece(paths=group), int(sum(sizes[path] for path in group)))
            for group in _shares(sizes, self.engine.width)
        ]
        return self._carry_out("ingest", pieces)

    def update(self, names: Iterable[str]) -> list[Result]:
        """Compute the tables of these runs."""
        return self._carry_out("update", self._pieces_of(names, self.engine.width))

    def merge_events(self, names: Iterable[str], parts: Container[str]) -> list[Result]:
        """Merge the events of these runs that are in these parts."""
        return self._carry_out("compact_events", self._pieces_of(names, _one, parts))

    def merge_tables(self, parts: Mapping[str, float]) -> list[Result]:
        """Merge these parts of computed tables; each is about so many events."""
        answers = self.state.answers
        pieces = []
        for group in _shares(parts, _one):
            live = {part: {"tables": answers[part].tables, "live": self.state.live_runs(part)} for part in group}
            pieces.append((self._piece(parts=live), int(sum(parts[part] for part in group))))
        return self._carry_out("compact_tables", pieces)

    def _carry_out(self, task: str, pieces: list[_Piece]) -> list[Result]:
        if not pieces:
            return []
        total = sum(events for _, events in pieces)
        results = []
        with self.progress(_SAID[task], total) as advance:
            for result in self.engine.carry_out(task, [piece for piece, _ in pieces]):
                results.append(json.loads(result))
                advance(total // len(pieces))
        return results

    def _pieces_of(self, names: Iterable[str], width: _Width, only_parts: Container[str] | None = None) -> list[_Piece]:
        """Return the work on these runs. Runs whose events are in the same files come together."""
        runs, refused = self.state.runs, self.state.refused()
        ordered = sorted(names, key=lambda name: (runs[name].segments[:1], name))
        sizes = {name: float(runs[name].events) for name in ordered}
        return [
            (
                self._piece(runs={name: self._wanted(name, refused, only_parts) for name in group}),
                int(sum(sizes[name] for name in group)),
            )
            for group in _shares(sizes, width)
        ]

    def _wanted(
        self,
        name: str,
        refused: Mapping[str, Mapping[str, FileState]],
        only_parts: Container[str] | None = None,
    ) -> dict[str, Any]:
        """Return what a task needs to know about a run."""
        run = self.state.runs[name]
        segments = [each for each in run.segments if only_parts is None or each.part in only_parts]
        return {
            "revision": run.revision,
            "segments": segments,
            # Events that other files repeat are only left out if all of them are at hand.
            "is_repeated": run.is_repeated and len(segments) == len(run.segments),
            "refused": {path: asdict(file) for path, file in refused.get(name, {}).items()},
        }

    def _piece(self, **content: Any) -> str:
        head = {"url": self.warehouse.url, "number": self.state.number + 1}
        return json.dumps({**head, **content}, separators=(",", ":"))


def _one() -> int:
    return 1


def _share(total: float, width: _Width) -> float:
    """Return how many events a piece should have."""
    return total if total <= _FEW_EVENTS else min(EVENTS_A_TASK, total / width())


def _shares(sizes: Mapping[str, float], width: _Width) -> Iterator[list[str]]:
    """Yield neighbours in groups of about equal size, none of which is much larger than a task should be."""
    share = _share(sum(sizes.values()), width)
    group: list[str] = []
    held = 0.0
    for name, size in sizes.items():
        if group and held + size / 2 > share:
            yield group
            group, held = [], 0.0
        group.append(name)
        held += size
    if group:
        yield group
