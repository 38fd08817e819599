"""Thousands of random traces with planted faults, Spark against plain Python: a campaign outside CI.

    python -m tests.pipeline.campaign [COUNT] [--seed SEED] [--batch TRACES]

It prints what was planted and found, and every table with a row that differs. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from leveret.pipeline import gold
from leveret.pipeline.spark_session import session
from tests.pipeline import frames, plain, random_traces


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2_500)
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    is_good = True
    with session("test", memory="3g") as spark:
        for begin in range(0, options.count, options.batch):
            count = min(options.batch, options.count - begin)
            is_good &= compare(spark, options.seed + begin, count, totals)
    for name, total in sorted(totals.items()):
        print(f"{name:40} {total}")
    return 0 if is_good else 1


def compare(spark: SparkSession, seed: int, count: int, totals: Counter[str]) -> bool:
    """Return whether the tables of this many traces are equal; add the counts to `totals`."""
    begin = time.monotonic()
    made = random_traces.several(count, seed=seed)
    traces = [each.trace for each in made]
    expected = plain.tables(traces)
    totals["traces"] += count
    totals["events"] += sum(len(trace.events) for trace in traces)
    is_good = True
    with tempfile.TemporaryDirectory() as folder:
        found = frames.build(spark, frames.sources(spark, traces, Path(folder)), Path(folder))
        for name in gold.TABLES:
            left, right = frames.plain_rows(expected[name]), frames.rows_of(found[name])
            totals[f"rows of {name}"] += len(right)
            if left != right:
                is_good = False
                difference = Counter(left)
                difference.subtract(right)
                print(f"{name} differs from seed {seed}:")
                for row, times in [pair for pair in difference.items() if pair[1]][:10]:
                    print("  ", "only plain" if times > 0 else "only Spark", row)
        rows = found["violations"].collect()
    violations = {(row.run, row.worker, row.test, row.queue, row.msg, row.copy, row.rule) for row in rows}
    planted = {(each.trace.run, each.trace.worker, *fault) for each in made for fault in each.planted}
    for *_, rule in planted:
        totals[f"planted {rule}"] += 1
    totals["planted and not found"] += len(planted - violations)
    totals["found and not planted"] += len(violations - planted)
    print(f"{count} traces from seed {seed}: {time.monotonic() - begin:.0f} s", flush=True)
    return is_good and violations == planted


if __name__ == "__main__":
    sys.exit(main())
