"""Fingerprints: what each test did in its queues, as a digest.

It needs one numbering of copies by test, queue and outcome, with a count, a sum of requeues and the first arrival. The
groups are few, so each test's digest is made of them in Python.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import NEVER, Names, pick, table
from leveret.pipeline.kernel.copies import OUTCOMES, Copies
from leveret.pipeline.kernel.groups import numbered
from leveret.pipeline.kernel.tests import TestKey, TestLife

# The codes of a day and of a test.
_Key = tuple[int, int]


@dataclass(frozen=True, order=True)
class _Part:
    """The copies of a queue in a test with one outcome."""

    queue: str
    outcome: str
    n: int
    requeues: int
    # The seq of the first arrival; -1 if no copy has one. It is not part of the digest.
    began: int

    def text(self) -> str:
        return f"{self.queue}:{self.outcome}:{self.n}:{self.requeues}"

    def row(self) -> dict[str, Any]:
        return {"queue": self.queue, "outcome": self.outcome, "n": self.n, "requeues": self.requeues}


def fingerprints(copies: Copies, tests: dict[TestKey, TestLife], commit: str | None) -> pa.Table:
    """Return the table `fingerprints`. Of a test on several workers, the outcome is that of the first by name."""
    events = copies.events
    parts = _parts(copies)
    outcomes: dict[_Key, tuple[str, str | None]] = {}
    for (_, test), life in tests.items():
        if test >= 0:
            key, worker = (int(events.day[life.event]), test), events.worker.text(life.event) or ""
            outcomes[key] = min(
                outcomes.get(key, (worker, life.outcome)), (worker, life.outcome), key=lambda pair: pair[0]
            )
    keys = list(dict.fromkeys([*outcomes, *parts]))
    in_name_order = [sorted(parts.get(key, [])) for key in keys]
    in_time_order = [sorted(of, key=lambda part: (part.began, part)) for of in in_name_order]
    days = np.array([day for day, _ in keys], np.int64)
    tested = np.array([test for _, test in keys], np.int32)
    return table(
        schema.FINGERPRINTS,
        {
            **events.run_of(np.zeros(len(keys), np.int64)),
            "day": events.days.take(pa.array(days, mask=days < 0)),
            "test": Names(tested, events.test.distinct),
            "commit": [commit] * len(keys),
            "outcome": [outcomes.get(key, ("", None))[1] for key in keys],
            "fp": [_digest(of) for of in in_name_order],
            "order_fp": [_digest(of) for of in in_time_order],
            "parts": [[part.row() for part in of] for of in in_name_order],
        },
    )


def _parts(copies: Copies) -> dict[_Key, list[_Part]]:
    events = copies.events
    tested = np.flatnonzero(events.test.codes[copies.place_event[copies.place]] >= 0)
    place = copies.place_event[copies.place[tested]]
    groups = numbered(events.day[place], events.test.codes[place], events.queue.codes[place], copies.outcome[tested])
    enqueue = copies.enqueue[tested]
    began = groups.lowest(pick(events.seq, enqueue, NEVER))
    first = place[groups.first]
    columns = (
        events.day[first].tolist(),
        events.test.codes[first].tolist(),
        [events.queue.text(row) or "" for row in first.tolist()],
        copies.outcome[tested][groups.first].tolist(),
        groups.counts().tolist(),
        groups.sums(copies.count("requeued")[tested]).tolist(),
        np.where(began == NEVER, -1, began).tolist(),
    )
    found: dict[_Key, list[_Part]] = defaultdict(list)
    for day, test, queue, outcome, n, requeues, start in zip(*columns, strict=True):
        found[day, test].append(_Part(queue, OUTCOMES[outcome], n, requeues, start))
    return found


def _digest(parts: list[_Part]) -> str:
    return sha256("\n".join(part.text() for part in parts).encode()).hexdigest()
