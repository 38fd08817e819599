"""Work on a warehouse, divided into pieces for an engine: so many files or runs for each task."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leveret.pipeline.computing.engines import ProcessEngine, SparkEngine
from leveret.pipeline.kernel.grouping import in_groups
from leveret.pipeline.progress import Progress
from leveret.pipeline.sources import guessed_events
from leveret.pipeline.warehouse.state import Contents
from leveret.pipeline.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The events that one task works on. A task needs about a third of a gigabyte for as many.
EVENTS_A_TASK: Final = 400_000
# Up to this many events, starting a process takes longer than the work.
_FEW_EVENTS: Final = 100_000

# What is said of each task.
_SAID: Final = {"ingest": "ingesting", "update": "computing tables"}
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

    def ingest(self, paths: Iterable[Path], expired_before: str) -> list[Result]:
        """Store the events of these files, but not of those that began before a UTC date."""
        sizes = {str(path): guessed_events(str(path), path.stat().st_size) for path in paths}
        number = max((file.ingest for file in self._state.files.values()), default=0) + 1
        about = {"expired_before": expired_before, "ingest": number}
        return self._carry_out("ingest", sizes, lambda group: {"paths": group, **about})

    def update(self, names: Collection[str], tables: Collection[str]) -> list[Result]:
        """Compute the tables of these runs, which will then have all of these `tables`."""
        runs, rows = self._state.runs, self._warehouse.file_rows(self._state, names)

        def about(group: list[str]) -> Result:
            told = {name: {"revision": runs[name].revision, "files": rows.get(name, [])} for name in group}
            return {"runs": told, "events": self._state.holding("events", group), "tables": ",".join(tables)}

        return self._carry_out("update", {name: float(runs[name].events) for name in sorted(names)}, about)

    def _carry_out(self, task: str, sizes: Mapping[str, float], content: Callable[[list[str]], Result]) -> list[Result]:
        """Divide what has these sizes into pieces of work, with the `content` of each, and carry them out."""
        if not sizes:
            return []
        total = int(sum(sizes.values()))
        # With Spark Connect, asking for the width takes a query.
        share = total if total <= _FEW_EVENTS else min(EVENTS_A_TASK, total / self._engine.width())
        pieces = [
            json.dumps({"url": self._warehouse.url, **content(group)}, separators=(",", ":"), default=str)
            for group in in_groups(sizes, share)
        ]
        results = []
        with self._progress(_SAID[task], total) as advance:
            for result in self._engine.carry_out(task, pieces):
                results.append(json.loads(result))
                advance(total // len(pieces))
        return results
