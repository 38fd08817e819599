"""Merging the tables of the slices of a run that is too large for one task.

A slice has the events of some workers and tests, and all of the run's control events. So a copy, a message and a
consumer are in one slice, and their rows need no merging. The small tables have rows of the same key in several slices,
whose counts are added. Two tables are made anew: `queue_stats` from merged histograms, and `fingerprints` from copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import codes_of, numbers
from leveret.pipeline.kernel.groups import numbered
from leveret.pipeline.kernel.subjects.fingerprints import fingerprints

# The tables whose rows are in one slice each.
APART: Final = ("copies", "messages", "consumers", "violations")
# The columns of `copies` that `fingerprints` needs.
OF_COPIES: Final = ("day", "run", "test", "queue", "outcome", "requeues", "enq_seq")


@dataclass(frozen=True)
class _Added:
    """How rows of the same key are merged: columns that are added, and columns of which the highest is kept."""

    key: tuple[str, ...]
    sums: tuple[str, ...] = ()
    highest: tuple[str, ...] = ()


_FILE: Final = ("day", "run", "worker")
_QUEUE: Final = ("day", "run", "vhost", "queue")
_COUNTS: Final = ("deliveries", "redeliveries", "acked", "nacked", "rejected")
# Every slice has the whole of `control`, and of `tests` everything but the number of messages.
_ADDED: Final = {
    "control": _Added(("run", "worker", "seq")),
    "tests": _Added((*_FILE, "test"), ("published",)),
    "routes": _Added(("day", "run", "vhost", "kind", "exchange", "routing_key", "queue"), ("n",)),
    "test_queues": _Added(
        (*_FILE, "test", "vhost", "queue"), (*schema.SUMMED_OF_QUEUES, "late", "passed", "unordered"), ("max_depth",)
    ),
    "latency_hist": _Added((*_QUEUE, "measure", "bucket"), ("n",)),
    "queue_stats": _Added(_QUEUE, schema.SUMMED_OF_QUEUES, ("max_depth",)),
    "consumer_stats": _Added((*_QUEUE, "consumer"), _COUNTS, ("max_unacked",)),
    "run_lineage": _Added(("day", "run", "test", "from_queue", "reason", "to_queue"), ("n",)),
    "run_coverage": _Added(("day", "run", "kind", "name"), ("messages",)),
    "fault_effect": _Added((*_FILE, "test", "fault", "on"), ("copies", "redeliveries", "dead_letters", "leaked")),
}

# The tables of which `merged` needs the rows of every slice.
SMALL: Final = tuple(_ADDED)


def merged(slices: Sequence[Mapping[str, pa.Table]], copies: pa.Table, commit: str | None) -> dict[str, pa.Table]:
    """Return the tables of a run from those of its slices, all but the tables APART.

    `copies` has the columns OF_COPIES of all slices.
    """
    found = {name: _merged(pa.concat_tables([each[name] for each in slices]), how) for name, how in _ADDED.items()}
    found["queue_stats"] = _with_histograms(found["queue_stats"], found["latency_hist"])
    found["fingerprints"] = fingerprints(copies, found["tests"], commit)
    return found


def _merged(rows: pa.Table, how: _Added) -> pa.Table:
    groups = numbered(*(codes_of(rows[name]) for name in how.key))
    found = rows.take(pa.array(groups.first))
    changed = {name: groups.sums(numbers(rows[name].fill_null(0))) for name in how.sums}
    changed |= {name: groups.highest(numbers(rows[name])) for name in how.highest}
    for name, values in changed.items():
        found = found.set_column(found.schema.get_field_index(name), found.schema.field(name), pa.array(values))
    return found


def _with_histograms(queue_stats: pa.Table, latency_hist: pa.Table) -> pa.Table:
    """Return `queue_stats` with histograms that have these counts."""
    counts: dict[tuple[object, ...], dict[int, int]] = {}
    for row in latency_hist.to_pylist():
        key = tuple(row[name] for name in (*_QUEUE, "measure"))
        counts.setdefault(key, {})[row["bucket"]] = row["n"]
    queues = queue_stats.select(_QUEUE).to_pylist()
    for measure in ("wait", "process"):
        index = queue_stats.schema.get_field_index(f"{measure}_hist")
        maps = [sorted(counts.get((*row.values(), measure), {}).items()) for row in queues]
        field = queue_stats.schema.field(index)
        queue_stats = queue_stats.set_column(index, field, pa.array(maps, field.type))
    return queue_stats
