"""Fingerprints: what each test did in its queues, as a digest.

It groups copies by test, queue and outcome, with a count, a sum of requeues and the first arrival. The groups are few,
so each test's digest is made of them in Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import table
from leveret.pipeline.kernel.grouping import grouped
from leveret.pipeline.kernel.subjects.runs import RunFacts

# A run, a day and a test.
_Key = tuple[str, date | None, str]


class _Part(NamedTuple):
    """The copies of a queue in a test with one outcome."""

    queue: str
    outcome: str
    n: int
    requeues: int
    # The seq of the first arrival; -1 if no copy has one. It is not part of the digest.
    began: int

    def text(self) -> str:
        return f"{self.queue}:{self.outcome}:{self.n}:{self.requeues}"


def fingerprints(copies: pa.Table, tests: pa.Table, about: Mapping[str, RunFacts]) -> pa.Table:
    """Return the table `fingerprints`, from the tables `copies` and `tests`, and the commit of each run.

    Of a test on several workers, the outcome is that of the first by name.
    """
    parts = _parts(copies)
    outcomes: dict[_Key, str | None] = {}
    for row in sorted(
        tests.select(["run", "day", "worker", "test", "outcome"]).to_pylist(), key=lambda row: row["worker"]
    ):
        outcomes.setdefault((row["run"], row["day"], row["test"]), row["outcome"])
    keys = list(dict.fromkeys([*outcomes, *parts]))
    in_name_order = [sorted(parts.get(key, [])) for key in keys]
    in_time_order = [sorted(of, key=lambda part: (part.began, part)) for of in in_name_order]
    return table(
        schema.FINGERPRINTS,
        {
            "day": [day for _, day, _ in keys],
            "run": [run for run, _, _ in keys],
            "test": [test for *_, test in keys],
            "commit": [about[run].commit for run, _, _ in keys],
            "outcome": [outcomes.get(key) for key in keys],
            "fp": [_digest(of) for of in in_name_order],
            "order_fp": [_digest(of) for of in in_time_order],
            "parts": [[part._asdict() for part in of] for of in in_name_order],
        },
    )


def _parts(copies: pa.Table) -> dict[_Key, list[_Part]]:
    key = ("run", "day", "test", "queue", "outcome")
    tested = copies.select([*key, "requeues", "enq_seq"]).filter(pc.is_valid(copies["test"]))
    found: dict[_Key, list[_Part]] = defaultdict(list)
    for row in grouped(tested, key, sums=["requeues"], lowest=["enq_seq"]):
        began = -1 if row["enq_seq"] is None else row["enq_seq"]
        part = _Part(row["queue"] or "", row["outcome"], row["count"], row["requeues"], began)
        found[row["run"], row["day"], row["test"]].append(part)
    return found


def _digest(parts: list[_Part]) -> str:
    return sha256("\n".join(part.text() for part in parts).encode()).hexdigest()
