"""Thousands of random traces with planted faults, the kernel against plain Python: a campaign outside CI.

    python -m tests.pipeline.kernel_campaign [COUNT] [--seed SEED] [--batch TRACES] [--disturbed]

It prints what was planted and found, and every table with a row that differs. The exit code is 1 if anything differs.
With --disturbed, the traces have gaps, and what was planted is not compared.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from leveret.pipeline.kernel.schema import TABLES
from leveret.pipeline.kernel.subjects.runs import RunFacts
from leveret.pipeline.kernel.tables import tables_of
from leveret.trace import schema as trace_schema
from tests.pipeline import plain, random_traces
from tests.pipeline.plain import Trace
from tests.pipeline.random_traces import Made

NAMES: Final = tuple(TABLES)
# Numbers for consumers, which only the kernel gives.
_OWN: Final = ("holder", "last_holder")
_TYPES: Final = {"long": pa.int64(), "int": pa.int32(), "string": pa.string(), "boolean": pa.bool_()}
EVENTS: Final = pa.schema(
    {
        "day": pa.date32(),
        "run": pa.string(),
        "worker": pa.string(),
        **{name: _TYPES[kind] for name, kind in trace_schema.COLUMNS.items()},
    }
)


@dataclass
class Compared:
    """The rows of each table as sorted text: those of plain Python, and those of the kernel."""

    expected: dict[str, list[str]]
    found: dict[str, list[str]]
    violations: set[tuple[Any, ...]]


def compare(made: list[Made]) -> Compared:
    """Compute all tables of these traces both ways."""
    traces = [each.trace for each in made]
    expected = plain.tables(traces)
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for tables in tables_of_runs(traces):
        for name, rows in tables.items():
            found[name] += rows.to_pylist(maps_as_pydicts="strict")
    names = ("run", "worker", "test", "queue", "msg", "copy", "rule")
    return Compared(
        {name: texts(rows) for name, rows in expected.items()},
        {name: texts(rows) for name, rows in found.items()},
        {tuple(row[name] for name in names) for row in found["violations"]},
    )


def tables_of_runs(traces: Iterable[Trace]) -> list[dict[str, pa.Table]]:
    """Return the kernel's tables of these traces: those of all runs at once, and those of each run."""
    by_run: dict[str, list[Trace]] = defaultdict(list)
    for trace in traces:
        by_run[trace.run].append(trace)
    facts = {
        run: RunFacts(of[0].commit, of[0].began, frozenset(trace.worker for trace in of if trace.truncated))
        for run, of in by_run.items()
    }
    at_once = tables_of(events_of(itertools.chain(*by_run.values())), facts)
    one_by_one = [tables_of(events_of(of_run), facts) for of_run in by_run.values()]
    for name, rows in at_once.items():
        each = [row for of_run in one_by_one for row in of_run[name].to_pylist(maps_as_pydicts="strict")]
        assert texts(rows.to_pylist(maps_as_pydicts="strict")) == texts(each), name
    return [at_once]


def events_of(traces: Iterable[Trace]) -> pa.Table:
    """Return the events of these traces as a table."""
    return pa.Table.from_pylist([{**event, **trace.file} for trace in traces for event in trace.events], EVENTS)


def texts(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the rows as sorted texts."""
    return sorted(_text(row) for row in rows)


def _text(row: dict[str, Any]) -> str:
    ordered = {name: sorted(value.items()) if isinstance(value, dict) else value for name, value in row.items()}
    return repr(sorted(pair for pair in ordered.items() if pair[0] not in _OWN))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--disturbed", action="store_true")
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    for begin in range(0, options.count, options.batch):
        count = min(options.batch, options.count - begin)
        _compare_batch(options.seed + begin, count, totals, is_disturbed=options.disturbed)
    for name, total in sorted(totals.items()):
        print(f"{name:40} {total}")
    return 1 if any(total for name, total in totals.items() if name.startswith("wrong")) else 0


def _compare_batch(seed: int, count: int, totals: Counter[str], *, is_disturbed: bool) -> None:
    began = time.monotonic()
    made = random_traces.several(count, seed=seed)
    if is_disturbed:
        for number, each in enumerate(made):
            each.trace = random_traces.disturbed(each.trace, seed + number)
    compared = compare(made)
    totals["traces"] += count
    totals["events"] += sum(len(each.trace.events) for each in made)
    for name in NAMES:
        left, right = compared.expected[name], compared.found[name]
        totals[f"rows of {name}"] += len(right)
        if left != right:
            difference = Counter(left)
            difference.subtract(right)
            print(f"{name} differs from seed {seed}:")
            for row, times in [pair for pair in difference.items() if pair[1]][:10]:
                totals["wrong rows"] += 1
                print("  ", "only plain" if times > 0 else "only the kernel", row)
    if not is_disturbed:
        _compare_planted(made, compared, totals)
    print(f"{count} traces from seed {seed}: {time.monotonic() - began:.0f} s", flush=True)


def _compare_planted(made: list[Made], compared: Compared, totals: Counter[str]) -> None:
    planted = {(each.trace.run, each.trace.worker, *fault) for each in made for fault in each.planted}
    for *_, rule in planted:
        totals[f"planted {rule}"] += 1
    totals["wrong: planted and not found"] += len(planted - compared.violations)
    totals["wrong: found and not planted"] += len(compared.violations - planted)


if __name__ == "__main__":
    sys.exit(main())
