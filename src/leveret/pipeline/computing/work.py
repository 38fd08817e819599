"""Work on a warehouse, divided into pieces for an engine: so many files, runs or parts for each task."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leveret.pipeline.computing.engines import ProcessEngine, SparkEngine
from leveret.pipeline.progress import Progress
from leveret.pipeline.sources import guessed_events
from leveret.pipeline.warehouse.log import Contents, FileState
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
# Returns how many tasks run at the same time. With Spark Connect that takes a query, so only large work needs it.
_Width = Callable[[], int]
# What a task returns.
Result = dict[str, Any]


class Work:
    """What is to be done to a warehouse in this state: in Spark if there is a session, and else in processes."""

    def __init__(
        self,
        warehouse: Warehouse,
        state: Contents,
        spark: SparkSession | None,
        processes: int | None,
        progress: Progress,
    ) -> None:
        self._warehouse: Final = warehouse
        self._state: Final = state
        self._engine: Final = ProcessEngine(processes) if spark is None else SparkEngine(spark)
        self._progress: Final = progress

    def ingest(self, paths: Iterable[Path]) -> list[Result]:
        """Store the events of these files."""
        sizes = {str(path): guessed_events(str(path), path.stat().st_size) for path in paths}
        return self._carry_out("ingest", sizes, self._engine.width, lambda group: {"paths": group})

    def update(self, names: Iterable[str]) -> list[Result]:
        """Compute the tables of these runs."""
        return self._on_runs("update", names, self._engine.width)

    def merge_events(self, names: Iterable[str], parts: Container[str]) -> list[Result]:
        """Merge the events of these runs that are in these parts."""
        return self._on_runs("compact_events", names, lambda: 1, parts)

    def merge_tables(self, parts: Mapping[str, float]) -> list[Result]:
        """Merge these parts of computed tables; each is about so many events."""
        tables, live = {part: self._state.answers[part].tables for part in parts}, self._state.live_runs
        return self._carry_out(
            "compact_tables",
            parts,
            lambda: 1,
            lambda group: {"parts": {part: {"tables": tables[part], "live": live(part)} for part in group}},
        )

    def _carry_out(
        self, task: str, sizes: Mapping[str, float], width: _Width, content: Callable[[list[str]], dict[str, Any]]
    ) -> list[Result]:
        """Divide what has these sizes into pieces of work, with the `content` of each, and carry them out."""
        if not sizes:
            return []
        head = {"url": self._warehouse.url, "number": self._state.number + 1}
        pieces = [json.dumps({**head, **content(group)}, separators=(",", ":")) for group in _shares(sizes, width)]
        total = int(sum(sizes.values()))
        results = []
        with self._progress(_SAID[task], total) as advance:
            for result in self._engine.carry_out(task, pieces):
                results.append(json.loads(result))
                advance(total // len(pieces))
        return results

    def _on_runs(
        self, task: str, names: Iterable[str], width: _Width, only_parts: Container[str] | None = None
    ) -> list[Result]:
        """Carry out work on these runs. Runs whose events are in the same files come together."""
        runs, refused = self._state.runs, self._state.refused()
        ordered = sorted(names, key=lambda name: (runs[name].segments[:1], name))
        return self._carry_out(
            task,
            {name: float(runs[name].events) for name in ordered},
            width,
            lambda group: {"runs": {name: self._wanted(name, refused, only_parts) for name in group}},
        )

    def _wanted(
        self,
        name: str,
        refused: Mapping[str, Mapping[str, FileState]],
        only_parts: Container[str] | None,
    ) -> dict[str, Any]:
        """Return what a task needs to know about a run."""
        run = self._state.runs[name]
        segments = [each for each in run.segments if only_parts is None or each.part in only_parts]
        return {
            "revision": run.revision,
            "segments": segments,
            # Events that other files repeat are only left out if all of them are at hand.
            "is_repeated": run.is_repeated and len(segments) == len(run.segments),
            "refused": {path: asdict(file) for path, file in refused.get(name, {}).items()},
        }


def _shares(sizes: Mapping[str, float], width: _Width) -> Iterator[list[str]]:
    """Yield neighbours in groups of about equal size, none of which is much larger than a task should be."""
    total = sum(sizes.values())
    share = total if total <= _FEW_EVENTS else min(EVENTS_A_TASK, total / width())
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
