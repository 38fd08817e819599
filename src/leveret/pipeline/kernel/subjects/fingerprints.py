"""Fingerprints: what each test did in its queues, as a digest.

It needs one numbering of copies by test, queue and outcome, with a count, a sum of requeues and the first arrival. The
groups are few, so each test's digest is made of them in Python.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import NEVER, NULL, Names, numbers, table
from leveret.pipeline.kernel.groups import numbered

# A day and a test.
_Key = tuple[date | None, str]


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


def fingerprints(copies: pa.Table, tests: pa.Table, commit: str | None) -> pa.Table:
    """Return the table `fingerprints` of a run, from its tables `copies` and `tests`.

    Of a test on several workers, the outcome is that of the first by name.
    """
    parts = _parts(copies)
    outcomes: dict[_Key, str | None] = {}
    for row in sorted(tests.select(["day", "worker", "test", "outcome"]).to_pylist(), key=lambda row: row["worker"]):
        outcomes.setdefault((row["day"], row["test"]), row["outcome"])
    keys = list(dict.fromkeys([*outcomes, *parts]))
    in_name_order = [sorted(parts.get(key, [])) for key in keys]
    in_time_order = [sorted(of, key=lambda part: (part.began, part)) for of in in_name_order]
    runs = (tests if len(tests) else copies)["run"].slice(0, 1).to_pylist()
    return table(
        schema.FINGERPRINTS,
        {
            "day": [day for day, _ in keys],
            "run": runs * len(keys),
            "test": [test for _, test in keys],
            "commit": [commit] * len(keys),
            "outcome": [outcomes.get(key) for key in keys],
            "fp": [_digest(of) for of in in_name_order],
            "order_fp": [_digest(of) for of in in_time_order],
            "parts": [[part.row() for part in of] for of in in_name_order],
        },
    )


def _parts(copies: pa.Table) -> dict[_Key, list[_Part]]:
    test, queue, outcome = (Names.of(copies[name]) for name in ("test", "queue", "outcome"))
    days = copies["day"].combine_chunks().dictionary_encode()
    tested = np.flatnonzero(test.codes >= 0)
    day = np.asarray(days.indices.fill_null(-1))
    groups = numbered(day[tested], *(names.codes[tested] for names in (test, queue, outcome)))
    seqs = numbers(copies["enq_seq"])[tested]
    began = groups.lowest(np.where(seqs == NULL, NEVER, seqs))
    first = tested[groups.first]
    columns = (
        copies["day"].take(pa.array(first)).to_pylist(),
        *([names.text(row) or "" for row in first.tolist()] for names in (test, queue, outcome)),
        groups.counts().tolist(),
        groups.sums(numbers(copies["requeues"])[tested]).tolist(),
        np.where(began == NEVER, -1, began).tolist(),
    )
    found: dict[_Key, list[_Part]] = defaultdict(list)
    for of_day, of_test, *part in zip(*columns, strict=True):
        found[of_day, of_test].append(_Part(*part))
    return found


def _digest(parts: list[_Part]) -> str:
    return sha256("\n".join(part.text() for part in parts).encode()).hexdigest()
