"""Compaction: merging the small parts that many updates leave, so that a table is read from few files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leveret.errors import ConflictError
from leveret.pipeline.computing.work import EVENTS_A_TASK, Work
from leveret.pipeline.progress import Progress, silence
from leveret.pipeline.warehouse import log
from leveret.pipeline.warehouse.log import Contents
from leveret.pipeline.warehouse.warehouse import Warehouse, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A part with fewer events is small. A merge makes parts for as many events as a task works on, so each event is merged
# a few times only.
_SMALL_PART_EVENTS: Final = EVENTS_A_TASK // 2
# With so many small parts, an update merges them.
_MANY_SMALL_PARTS: Final = 50


def compact(
    warehouse: Warehouse | str | Path,
    *,
    spark: SparkSession | None = None,
    processes: int | None = None,
    small_events: int = _SMALL_PART_EVENTS,
    state: Contents | None = None,
    progress: Progress = silence,
) -> int:
    """Merge the parts with fewer events than `small_events`, and return how many there were.

    Parts with tables of your own stay as they are. An update does this if there are many. Raises ConflictError if
    another process changed the warehouse meanwhile; nothing is lost, and you can run it again.
    """
    warehouse = opened(warehouse)
    state = warehouse.existing() if state is None else state
    events, answers = _to_merge(state, small_events)
    if not events and not answers:
        return 0
    work = Work(warehouse, state, spark, processes, progress)
    runs = [name for name, run in state.runs.items() if any(each.part in events for each in run.segments)]
    moved = work.merge_events(runs, events)
    merged = work.merge_tables(answers)
    commit = {
        "kind": log.COMPACT,
        "segments": list(events),
        "runs": {name: run for each in moved for name, run in each["runs"].items()},
        "parts": {each["part"]: {"tables": each["tables"], "runs": each["runs"], "added": {}} for each in merged},
    }
    warehouse.commit(commit, state, is_exclusive=True)
    warehouse.write_snapshot(state)
    return len({*events, *answers})


def events_to_merge(state: Contents) -> float:
    """Return about how many events `compact` would have to read, as events or as tables computed from them."""
    return sum(sum(parts.values()) for parts in _to_merge(state, _SMALL_PART_EVENTS))


def tidy(warehouse: Warehouse, state: Contents, spark: SparkSession | None, processes: int | None) -> None:
    """Merge small parts if there are many, and remove files that no longer count."""
    if max(map(len, _to_merge(state, _SMALL_PART_EVENTS))) < _MANY_SMALL_PARTS:
        return
    # If another process commits meanwhile, a later update merges them.
    with suppress(ConflictError):
        compact(warehouse, spark=spark, processes=processes, state=state)
        warehouse.vacuum()


def _to_merge(state: Contents, small_events: int) -> list[dict[str, float]]:
    """Return the small parts of events and of computed tables, with the events that they are about.

    There are none of a kind that has only one, and so nothing to merge.
    """
    events: dict[str, float] = {}
    answers = {part: 0.0 for part, answer in state.answers.items() if not answer.added}
    for run in state.runs.values():
        parts = log.parts_of(run.segments)
        for part in parts:
            events[part] = events.get(part, 0.0) + run.events / len(parts)
        if run.answer in answers:
            answers[run.answer] += run.events
    small = ({part: count for part, count in sizes.items() if count < small_events} for sizes in (events, answers))
    return [parts if len(parts) > 1 else {} for parts in small]
