"""The tables across runs: lineage, coverage, message_shapes and flaky, from the rows of many runs. `changes` has a file
of its own.

Each groups rows by its key, and sums and counts what is different in each group. `ACROSS` lists the tables.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import Array, NameColumn, table
from leveret.pipeline.kernel.groups import Numbering, numbered
from leveret.pipeline.kernel.subjects.changes import changes, in_order_of_time
from leveret.pipeline.kernel.subjects.shapes import ABSENT, PRESENT
from leveret.trace.shapes import parent_path
from leveret.trace.shapes.file_shapes import ROOT


@dataclass(frozen=True)
class Across:
    """A table across runs: the table that it reads and which columns of it, its columns and its function."""

    reads: str
    needs: tuple[str, ...]
    columns: pa.Schema
    build: Callable[[pa.Table], pa.Table]


def lineage(run_lineage: pa.Table) -> pa.Table:
    """Return the source and target queues of dead letters over all runs."""
    groups = _grouped(run_lineage, _WAY, [("n", "sum"), ("run", "count_distinct"), ("test", "count_distinct")])
    return table(schema.LINEAGE, dict(zip(schema.LINEAGE.names, groups.columns, strict=True)))


def coverage(run_coverage: pa.Table) -> pa.Table:
    """Count the runs in which each thing was declared and used, over all runs."""
    run = run_coverage["run"].cast(pa.string())
    is_used = pc.greater(run_coverage["messages"], 0)
    rows = run_coverage.select([*_THING, "messages"])
    for name, where in (("declared_in", run_coverage["declared"]), ("exercised_in", is_used)):
        rows = rows.append_column(name, pc.if_else(where, run, None))
    counted = [("declared_in", "count_distinct"), ("exercised_in", "count_distinct"), ("messages", "sum")]
    groups = _grouped(rows, _THING, counted).rename_columns(schema.COVERAGE.names[:-1])
    columns = dict(zip(groups.column_names, groups.columns, strict=True))
    return table(schema.COVERAGE, {**columns, "never": pc.equal(groups["exercised_in"], 0)})


def message_shapes(run_shapes: pa.Table) -> pa.Table:
    """Add up what messages are like over all runs, with the first and the last run that showed it."""
    rank, first_of_run = in_order_of_time(run_shapes, NameColumn.of(run_shapes["run"]))
    runs = run_shapes.select(["run", "commit"]).take(pa.array(first_of_run)).to_pylist()
    counted = [("n", "sum"), ("run", "count_distinct"), ("rank", "min"), ("rank", "max")]
    groups = _grouped(run_shapes.append_column("rank", pa.array(rank)), (*_KIND, "field", "type", "word"), counted)
    found: list[dict[str, Any]] = []
    counts: dict[tuple[str, ...], dict[tuple[str, str], int]] = defaultdict(dict)
    for row in groups.to_pylist():
        n, first, last = row["n_sum"], runs[row["rank_min"]], runs[row["rank_max"]]
        ends = {f"{end}_{name}": run[name] for end, run in (("first", first), ("last", last)) for name in run}
        found.append({**row, **ends, "n": n, "runs": row["run_count_distinct"]})
        if row["word"] is None:
            counts[tuple(row[name] for name in _KIND)][row["field"], row["type"]] = n
    for kind, of_kind in counts.items():
        address = dict(zip(_KIND, kind, strict=True))
        found += [{**address, "field": field, "type": ABSENT, "n": n} for field, n in _absences(of_kind)]
    return pa.Table.from_pylist(found, schema.MESSAGE_SHAPES)


def _absences(counts: Mapping[tuple[str, str], int]) -> Iterator[tuple[str, int]]:
    """Yield each field of a kind of message with the number of messages of which an object lacks it."""
    for field in dict.fromkeys(field for field, _ in counts):
        part, _, path = field.partition(".")
        above = parent_path(path)
        if path != ROOT and above != path and not path[len(above) :].lstrip(".").startswith("{"):
            n = counts.get((f"{part}.{above or ROOT}", "object"), 0) - counts.get((field, PRESENT), 0)
            if n > 0:
                yield field, n


def flaky(fingerprints: pa.Table) -> pa.Table:
    """Count the behaviours that each test had on one commit, and name the first queue (by name) in which they differ.

    A test without an end (`outcome` is null) is left out: how far it got before its run was killed is no behaviour.
    `entropy` is in bits: 0 if all runs were alike, 1 if two behaviours were equally frequent.
    """
    fingerprints = fingerprints.filter(pc.is_valid(fingerprints["outcome"]))
    key = {name: NameColumn.of(fingerprints[name]) for name in ("commit", "test")}
    tests = numbered(*(names.codes for names in key.values()))
    behaviours = numbered(tests.number, NameColumn.of(fingerprints["fp"]).codes)
    times, test_of = behaviours.counts(), tests.number[behaviours.first]
    runs, kinds = tests.counts(), np.bincount(test_of, minlength=tests.count)
    weight = np.bincount(test_of, weights=times * np.log2(times), minlength=tests.count)
    entropy = np.round(np.log2(np.maximum(runs, 1)) - weight / np.maximum(runs, 1), 6)
    return table(
        schema.FLAKY,
        {
            **{name: names.at(tests.first) for name, names in key.items()},
            "behaviours": kinds,
            "runs": runs,
            # Adding zero turns -0.0 into 0.0.
            "entropy": pa.array(entropy + 0.0),
            "first_differing_queue": _first_differing(fingerprints["parts"], tests, runs, kinds > 1),
        },
    )


def _first_differing(column: pa.ChunkedArray, tests: Numbering, runs: Array, is_flaky: Array) -> list[str | None]:
    """Return for each test that `is_flaky` the first queue, by name, of a part that not all of its runs have."""
    # Most tests are not, and their parts need no look.
    of_flaky = np.flatnonzero(is_flaky[tests.number])
    counts: dict[int, Counter[tuple[object, ...]]] = defaultdict(Counter)
    for test, parts in zip(tests.number[of_flaky].tolist(), column.take(pa.array(of_flaky)).to_pylist(), strict=True):
        counts[test].update(tuple(part.values()) for part in parts)
    first = {
        test: min((str(part[0]) for part, count in of.items() if count < runs[test]), default=None)
        for test, of in counts.items()
    }
    return [first.get(test) for test in range(tests.count)]


def _grouped(rows: pa.Table, by: tuple[str, ...], counted: list[tuple[str, str]]) -> pa.Table:
    """Return the groups of rows that are equal in the columns `by`. Arrow groups by no dictionary codes."""
    return rows.cast(schema.plain(rows.schema)).group_by(list(by)).aggregate(counted)


_WAY: Final = ("vhost", "from_queue", "reason", "to_queue")
_THING: Final = ("kind", "name")
_KIND: Final = ("vhost", "exchange", "routing_key", "name")

ACROSS: Final = {
    "lineage": Across("run_lineage", (*_WAY, "run", "test", "n"), schema.LINEAGE, lineage),
    "coverage": Across("run_coverage", (*_THING, "run", "declared", "messages"), schema.COVERAGE, coverage),
    "message_shapes": Across("run_shapes", tuple(schema.RUN_SHAPES.names), schema.MESSAGE_SHAPES, message_shapes),
    "flaky": Across("fingerprints", ("commit", "test", "outcome", "fp", "parts"), schema.FLAKY, flaky),
    "changes": Across("run_counts", tuple(schema.RUN_COUNTS.names), schema.CHANGES, changes),
}
