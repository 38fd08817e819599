"""Lineage: from which queue into which dead letters went, and why.

A dead letter finds the copy that died by its number, with one search; then equal ways are numbered and their letters
summed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.codes import DEATH_REASONS
from leveret.pipeline.kernel.columns import NO_ROW, NULL, NameColumn, names_of, pick, table
from leveret.pipeline.kernel.groups import Index, identified, numbered
from leveret.pipeline.kernel.subjects.copies import Copies
from leveret.trace.events import ARRIVALS, DEATHS


def run_lineage(copies: Copies) -> pa.Table:
    """Return the table `run_lineage`."""
    events = copies.events
    worker = events.worker.codes[copies.last]
    number, origin = identified(worker, copies.copy, copies.src_copy)
    letters = np.flatnonzero((copies.src_copy != NULL) & (copies.count(*ARRIVALS) > 0))
    died = np.flatnonzero(copies.count(*DEATHS) > 0)
    source = pick(died, Index(number[died]).find(origin[letters]), NO_ROW)
    from_queue = pick(events.queue.codes[copies.last], source, NO_ROW)
    reason = np.maximum(pick(copies.death, source), 0) - 1
    place = copies.place_event[copies.place[letters]]
    where = (getattr(events, name).codes[place] for name in ("day", "test", "vhost", "queue"))
    groups = numbered(*where, from_queue, reason)
    first = place[groups.first]
    return table(
        schema.RUN_LINEAGE,
        {
            **events.run_of(first),
            **events.names_of(first, "test", "vhost"),
            "from_queue": NameColumn(from_queue[groups.first], events.queue.distinct),
            "reason": names_of(list(DEATH_REASONS), reason[groups.first]),
            "to_queue": events.queue.at(first),
            "n": groups.sums(copies.count(*ARRIVALS)[letters]),
        },
    )
