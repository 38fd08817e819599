"""Shards: files of one run and one worker that began at different times, as of CI jobs that share a run's name.

Each counts its messages and copies from one, so each is a worker of its own. The one that began first keeps the name of
the worker, and the others get a number, as in `gw0#2`. Files that began at the same time are pieces or copies of one
file: an event that several of them hold counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel.columns import NameColumn, numbers
from leveret.pipeline.kernel.grouping import Row, grouped
from leveret.pipeline.kernel.schema import TEXT, plain

# A worker as its files name it, and when they began.
Shard = tuple[str, str | None]


def named(shards: Iterable[Shard]) -> dict[Shard, str]:
    """Return the name of each of these shards."""
    ordered = sorted(set(shards), key=lambda shard: (shard[0], shard[1] or ""))
    ranks: Counter[str] = Counter()
    names = {}
    for shard in ordered:
        ranks[shard[0]] += 1
        rank = ranks[shard[0]]
        names[shard] = shard[0] if rank == 1 else f"{shard[0]}#{rank}"
    return names


def renamed(files: Iterable[Row]) -> list[Row]:
    """Return the rows of FILES of a run with the names of shards as workers. Those without events come last."""
    files = list(files)
    of_events = [(row["worker"], row["started"]) for row in files if row["events"]]
    names = named(of_events)
    for row in files:
        shard = (row["worker"], row["started"])
        if shard not in names and row["worker"] in names.values():
            names[shard] = f"{row['worker']}#{1 + sum(worker == row['worker'] for worker, _ in names)}"
    return [{**row, "worker": names.get((row["worker"], row["started"]), row["worker"])} for row in files]


def merged(events: pa.Table) -> tuple[pa.Table, Counter[Shard]]:
    """Return the stored events of a run with their shards named, each once, and the number of conflicts of each shard.

    A conflict is an event of which files say different things. One of its rows is kept, whatever their order.
    """
    events = _with_names(events)
    worker, seq = NameColumn.of(events["worker"]).codes, numbers(events["seq"])
    order = np.lexsort((seq, worker))
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(worker[order]) != 0) | (np.diff(seq[order]) != 0)
    edges = np.append(np.flatnonzero(is_first), len(order))
    group, kept, again = np.cumsum(is_first) - 1, order[is_first], np.flatnonzero(~is_first)
    is_other = _differ(events.take(pa.array(order[again])), events.take(pa.array(kept[group[again]])))
    conflicts: Counter[Shard] = Counter()
    for number in np.unique(group[again[is_other]]).tolist():
        rows = events.take(pa.array(order[edges[number] : edges[number + 1]])).to_pylist()
        kept[number] = order[edges[number] + min(range(len(rows)), key=lambda at: repr(rows[at]))]
        conflicts[rows[0]["_worker"] or rows[0]["worker"], rows[0]["started"]] += 1
    return events.take(pa.array(kept)), conflicts


def _with_names(events: pa.Table) -> pa.Table:
    """Return the events with the names of their shards, by all that the run has."""
    own = pc.coalesce(events["_worker"].cast(pa.string()), events["worker"].cast(pa.string()))
    shards = pa.table({"worker": own, "started": events["started"].cast(pa.string())})
    found = [(row["worker"], row["started"]) for row in grouped(shards, shards.column_names)]
    names = named(found)
    if len(names) == len({worker for worker, _ in names}):
        return events
    worker, original = own, pa.nulls(len(events), pa.string())
    for (of_worker, started), name in names.items():
        if name != of_worker:
            is_of = pc.equal(shards["started"], started) if started is not None else pc.is_null(shards["started"])
            is_of = pc.and_(pc.equal(own, of_worker), is_of)
            worker, original = pc.if_else(is_of, name, worker), pc.if_else(is_of, of_worker, original)
    columns = {"worker": worker, "_worker": original}
    for name, column in columns.items():
        events = events.set_column(events.column_names.index(name), name, column.cast(TEXT))
    return events


def _differ(left: pa.Table, right: pa.Table) -> np.ndarray:
    """Return for each row whether one of its columns differs."""
    differ = np.zeros(len(left), bool)
    left, right = left.cast(plain(left.schema)), right.cast(plain(right.schema))
    for name in left.column_names:
        is_equal = pc.equal(left[name], right[name])
        are_null = pc.and_(pc.is_null(left[name]), pc.is_null(right[name]))
        differ |= ~np.asarray(pc.or_(is_equal.fill_null(False), are_null))
    return differ
