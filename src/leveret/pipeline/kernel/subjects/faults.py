"""Faults: how often each fault fired in a test, how the test ended, and what its queues counted.

Faults are few, so this goes through their events one by one. It needs one sum of `test_queues` by worker and test.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.codes import DEATH_REASONS
from leveret.pipeline.kernel.columns import table
from leveret.pipeline.kernel.control import Control, text_at
from leveret.pipeline.kernel.groups import numbered
from leveret.pipeline.kernel.subjects.queues import TestQueues
from leveret.pipeline.kernel.subjects.tests import TestKey, TestLife
from leveret.trace.events import FAULT

_COUNTS = ("copies", "redeliveries", "dead_letters", "leaked")


def fault_effect(control: Control, tests: dict[TestKey, TestLife], queues: TestQueues) -> pa.Table:
    """Return the table `fault_effect`."""
    events, chosen = control.events, control.of_kind(FAULT)
    struck: Counter[tuple[TestKey, str | None, str | None]] = Counter()
    first: dict[TestKey, int] = {}
    for event, attributes in zip(chosen.event.tolist(), chosen.parsed(), strict=True):
        key = (int(events.worker.codes[event]), int(events.test.codes[event]))
        first.setdefault(key, event)
        struck[key, text_at(attributes, "fault"), text_at(attributes, "on")] += 1
    seen = _counts(queues)
    rows = np.array([first[key] for key, _, _ in struck], np.int64)
    return table(
        schema.FAULT_EFFECT,
        {
            **events.file_of(rows),
            **events.names_of(rows, "test"),
            "fault": [fault for _, fault, _ in struck],
            "on": [on for _, _, on in struck],
            "struck": list(struck.values()),
            "outcome": [tests[key].outcome if key in tests and key[1] >= 0 else None for key, _, _ in struck],
            **{name: [seen.get(key, {}).get(name, 0) for key, _, _ in struck] for name in _COUNTS},
        },
    )


def _counts(queues: TestQueues) -> dict[TestKey, dict[str, int]]:
    """Return the counts of each test's queues, by worker and test."""
    events, place = queues.copies.events, queues.copies.place_event
    groups = numbered(events.worker.codes[place], events.test.codes[place])
    columns = queues.columns
    dead = np.sum([columns[f"dead_{reason}"] for reason in DEATH_REASONS], axis=0)
    sums = [groups.sums({**columns, "dead_letters": dead}[name]).tolist() for name in _COUNTS]
    first = place[groups.first]
    keys = zip(events.worker.codes[first].tolist(), events.test.codes[first].tolist(), strict=True)
    return {key: dict(zip(_COUNTS, counts, strict=True)) for key, *counts in zip(keys, *sums, strict=True)}
