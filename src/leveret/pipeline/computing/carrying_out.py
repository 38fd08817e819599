"""Carrying out a task by its name, in whatever process: what an engine does with a piece of work."""

from __future__ import annotations

import json
from typing import Final

from leveret.pipeline.computing import slices, tasks
from leveret.pipeline.computing.tasks import Task

_TASKS: Final[dict[str, Task]] = {
    task.__name__: task
    for task in (
        *(tasks.ingest, tasks.update, tasks.compact_events, tasks.compact_tables),
        *(slices.divide, slices.update_slice, slices.merge),
    )
}


def carry_out(task: str, piece: str) -> str:
    """Carry out the task of this name on a piece of work."""
    return json.dumps(_TASKS[task](json.loads(piece)))
