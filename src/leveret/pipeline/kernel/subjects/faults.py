"""Faults: how often each fault fired in a test, how the test ended, and what its queues counted.

Faults are few, so this goes through their events one by one. It sums `test_queues` by worker and test.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.codes import DEATH_REASONS
from leveret.pipeline.kernel.columns import table
from leveret.pipeline.kernel.control import ControlEvents, text_at
from leveret.pipeline.kernel.grouping import grouped
from leveret.pipeline.kernel.subjects.tests import TestKey, TestLife
from leveret.trace.events import FAULT

_DEATHS = tuple(f"dead_{reason}" for reason in DEATH_REASONS)
_COUNTS = ("copies", "redeliveries", "dead_letters", "leaked")


def fault_effect(control: ControlEvents, tests: dict[TestKey, TestLife], test_queues: pa.Table) -> pa.Table:
    """Return the table `fault_effect`."""
    events, chosen = control.events, control.of_kind(FAULT)
    struck: Counter[tuple[TestKey, str | None, str | None]] = Counter()
    first: dict[TestKey, int] = {}
    for event, attributes in zip(chosen.event.tolist(), chosen.parsed(), strict=True):
        key = (int(events.worker.codes[event]), int(events.test.codes[event]))
        first.setdefault(key, event)
        struck[key, text_at(attributes, "fault"), text_at(attributes, "on")] += 1
    if not struck:
        return schema.FAULT_EFFECT.empty_table()
    seen = {
        (row["run"], row["worker"], row["test"]): {**row, "dead_letters": sum(row[name] for name in _DEATHS)}
        for row in grouped(test_queues, ("run", "worker", "test"), sums=("copies", "redeliveries", "leaked", *_DEATHS))
    }
    rows = np.array([first[key] for key, _, _ in struck], np.int64)
    places = [(events.run.text(row), events.worker.text(row), events.test.text(row)) for row in rows.tolist()]
    counts = [seen.get(place, {}) for place in places]
    return table(
        schema.FAULT_EFFECT,
        {
            **events.file_of(rows),
            **events.names_of(rows, "test"),
            "fault": [fault for _, fault, _ in struck],
            "on": [on for _, _, on in struck],
            "struck": list(struck.values()),
            "outcome": [tests[key].outcome if key in tests and key[1] >= 0 else None for key, _, _ in struck],
            **{name: [of.get(name, 0) for of in counts] for name in _COUNTS},
        },
    )
