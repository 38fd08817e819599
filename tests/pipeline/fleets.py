"""Fleets: histories of a suite with planted stories and with noise that comes in spells, and what is found of them.

    python -m tests.pipeline.fleets [COUNT] [--seed SEED]

Each fleet is 60 runs of 30 tests, as rows of `run_counts`. One story begins at a commit: a test becomes flaky, a queue
deeper, a consumer slower, a message changes its shape, messages are lost, take a new path, or come out of order. In
spells of some runs a machine is slow: then some tests fail more often, messages are redelivered, queues are deeper and
all times longer. It prints what was planted and not found, and what was found and not planted.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

import pyarrow as pa

from leveret.pipeline.history import ChangeOrigin, history
from leveret.pipeline.kernel import schema
from tests.pipeline.in_memory import reader_of_tables

RUNS: Final = 60
TESTS: Final = 30
# How many commits around the first one may be named, if a change begins slowly, as a flaky test does.
_NEAR: Final = {"outcome": 8}
Row = dict[str, Any]


@dataclass
class Fleet:
    """The rows of `run_counts` of all runs, the run from which the story holds, and the measure that shows it."""

    seed: int
    story: str = ""
    begins: int = 0
    subject: str = ""
    rows: list[Row] = field(default_factory=list)

    def add(self, run: int, measure: str, n: int, **about: object) -> None:
        if n or measure == "outcome":
            day = date(2026, 3, 1) + timedelta(days=run)
            self.rows.append(
                {
                    "day": day,
                    "run": f"r{run:02}",
                    "began": run,
                    "commit": f"c{run:02}",
                    "vhost": "/",
                    "measure": measure,
                }
                | about
                | {"n": n}
            )

    def causes(self) -> list[ChangeOrigin]:
        counts = pa.Table.from_pylist(self.rows, schema.RUN_COUNTS)
        return history(reader_of_tables({"run_counts": counts}), [f"r{run:02}" for run in range(RUNS)]).causes


def make(seed: int) -> Fleet:
    dice = random.Random(seed)
    fleet = Fleet(seed, dice.choice(list(STORIES)), dice.randrange(25, 48))
    is_slow = _spells(dice)
    sensitive = set(dice.sample(range(1, TESTS), 8))
    flaky = _flaky_runs(dice, fleet)
    for run in range(RUNS):
        speed = dice.uniform(0.8, 1.3) * (dice.uniform(1.5, 4) if is_slow[run] else 1)
        for test in range(TESTS):
            name, queue = f"test_{test}", f"queue_{test}"
            told = STORIES[fleet.story] if test == 0 and run >= fleet.begins else ""
            trouble = test in sensitive and dice.random() < (0.5 if is_slow[run] else 0.02)
            has_failed = (trouble and dice.random() < 0.6) or (told == "outcome" and run in flaky)
            fleet.add(run, "outcome", 4 if has_failed else 0, test=name)
            of_queue = {"test": name, "queue": queue}
            fleet.add(run, "published", 10 + test % 3, **of_queue)
            fleet.add(run, "redeliveries", dice.randrange(1, 4) if trouble else 0, **of_queue)
            depth = 3 + (dice.randrange(0, 3) if test in sensitive else 0) + (3 if trouble else 0)
            fleet.add(run, "depth", depth + (6 if told == "depth" else 0), **of_queue)
            wait = 20_000 * (1 + test % 5) * speed * dice.lognormvariate(0, 0.15) * (2.5 if told == "wait" else 1)
            fleet.add(run, "wait", round(wait), queue=queue)
            fleet.add(run, "dropped", 2 if told == "dropped" else 0, test=name)
            way = {"reason": "rejected", "to_queue": "dead"}
            fleet.add(run, "dead_letters", 1 if told == "dead_letters" else 0, **of_queue, **way)
            fleet.add(run, "late", dice.randrange(1, 4) if told == "late" else 0, **of_queue)
            kind = {"exchange": "shop", "routing_key": name, "name": ""}
            for type_ in ("decimal" if told != "shape" else "number",):
                fleet.add(run, "shape", 1, **kind, field="body.total", reason=type_)
            if dice.random() < 0.8:
                fleet.add(run, "shape", 1, **kind, field="body.note", reason="null")
    return fleet


def _flaky_runs(dice: random.Random, fleet: Fleet) -> set[int]:
    """Return the runs since the story in which a test fails: a share of 20 to 60 %, and at least eight."""
    share = dice.uniform(0.2, 0.6)
    since = range(fleet.begins, RUNS)
    while True:
        failed = {run for run in since if dice.random() < share}
        if len(failed) >= 8:
            return failed
        share = min(share + 0.05, 0.6)


def _spells(dice: random.Random) -> list[bool]:
    slow: list[bool] = []
    while len(slow) < RUNS:
        slow += [False] * dice.randrange(8, 25) + [True] * dice.randrange(3, 11)
    return slow[:RUNS]


# What shows each story.
STORIES: Final = {
    "flaky": "outcome",
    "deeper": "depth",
    "slower": "wait",
    "shape": "shape",
    "loss": "dropped",
    "path": "dead_letters",
    "order": "late",
}


def judged(fleet: Fleet) -> tuple[bool, list[str]]:
    """Return whether the story was found with its commit, or near it, and what was found beside it."""
    measure, is_found, others = STORIES[fleet.story], False, []
    for cause in fleet.causes():
        for row in cause.changes:
            is_its = row["measure"] == measure and "0" in (
                *[test.removeprefix("test_") for test in row["tests"]],
                (row["queue"] or "").removeprefix("queue_"),
                (row["routing_key"] or "").removeprefix("test_"),
            )
            near = _NEAR.get(measure, 1)
            if is_its and cause.run is not None and abs(int(cause.run[1:]) - fleet.begins) <= near:
                is_found = True
            else:
                others.append(f"{cause.since()}: {row['measure']} {row['kind']} {row['tests'] or row['queue']}")
    return is_found, others


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = clean = 0
    for seed in range(options.seed, options.seed + options.count):
        fleet = make(seed)
        is_found, others = judged(fleet)
        found, clean = found + is_found, clean + (not others)
        if not is_found or others:
            print(seed, fleet.story, f"since c{fleet.begins}", "found" if is_found else "NOT FOUND", *others, sep="; ")
    print(f"found {found} of {options.count}, false ones in {options.count - clean}")


if __name__ == "__main__":
    main()
