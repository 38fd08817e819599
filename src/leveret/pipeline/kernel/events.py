"""The events of some runs as columns, in the order of time within each worker.

The position of an event in this order stands for its `seq` everywhere: positions are dense, so sorts and sums over them
are cheap, and one position is one event of one worker. The events are sorted by worker and seq only if they are not in
this order already. A worker of one run has another code than one of the same name of another run, and so have days: a
key with one of them keeps runs apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel.codes import COPY_KINDS
from leveret.pipeline.kernel.columns import Array, NameColumn, flags, numbers
from leveret.pipeline.kernel.groups import identified, numbered

# The columns of `events` that the tables need.
NEEDED = (
    *("day", "run", "worker", "seq", "ts", "kind", "test", "vhost", "conn", "chan", "msg", "copy", "src_copy"),
    *("exchange", "routing_key", "queue", "consumer", "tag", "redelivered", "count", "reason", "size", "shape"),
    "attrs",
)


@dataclass(frozen=True)
class Events:
    """The events of some runs: an array or a NameColumn for each column, with a value for each event."""

    # The rows in Arrow, of which `control` keeps a few.
    table: pa.Table
    run: NameColumn
    day: NameColumn
    seq: Array
    ts: Array
    kind: NameColumn
    worker: NameColumn
    test: NameColumn
    vhost: NameColumn
    exchange: NameColumn
    routing_key: NameColumn
    queue: NameColumn
    consumer: NameColumn
    reason: NameColumn
    shape: NameColumn
    conn: Array
    chan: Array
    msg: Array
    copy: Array
    src_copy: Array
    tag: Array
    size: Array
    # 1, 0, or -1 for null.
    redelivered: Array

    @classmethod
    def of(cls, table: pa.Table) -> Events:
        """Return the events of a table with the columns NEEDED."""
        table = each_once(table.select([name for name in table.column_names if name in NEEDED]))
        columns: dict[str, Any] = {}
        for name in cls.__dataclass_fields__:
            if name in ("seq", "ts", "conn", "chan", "msg", "copy", "src_copy", "tag", "size"):
                columns[name] = numbers(table[name])
            elif name == "redelivered":
                columns[name] = flags(table[name])
            elif name != "table":
                columns[name] = NameColumn.of(table[name])
        columns["run"], columns["day"] = _of_pairs(columns["run"], columns["day"])
        columns["worker"] = _of_pairs(columns["run"], columns["worker"])[1]
        return cls(table, **columns)

    def __len__(self) -> int:
        return len(self.seq)

    @cached_property
    def copy_kind(self) -> Array:
        """The number of each event's kind in COPY_KINDS, or 0."""
        return self.kind.numbers(COPY_KINDS)

    @cached_property
    def message_id(self) -> Array:
        """One number for each message of each worker; NO_ROW if the event is not about a message."""
        return identified(self.worker.codes, self.msg)[0]

    @cached_property
    def copy_ids(self) -> tuple[Array, Array]:
        """One number for each copy of each worker: those of `copy` and of `src_copy`."""
        copy, src_copy = identified(self.worker.codes, self.copy, self.src_copy)
        return copy, src_copy

    def run_of(self, rows: Array) -> dict[str, NameColumn]:
        """Return the columns day and run of these events."""
        return {"day": self.day.at(rows), "run": self.run.at(rows)}

    def file_of(self, rows: Array) -> dict[str, NameColumn]:
        """Return the columns day, run and worker of these events."""
        return {**self.run_of(rows), "worker": self.worker.at(rows)}

    def names_of(self, rows: Array, *columns: str) -> dict[str, NameColumn]:
        """Return these columns of strings for these events."""
        return {name: getattr(self, name).at(rows) for name in columns}


def each_once(table: pa.Table) -> pa.Table:
    """Return the events in the order of run, worker and seq, each once."""
    seq = numbers(table["seq"])
    worker = numbered(*(NameColumn.of(table[name]).codes for name in ("run", "worker"))).number
    if _is_sorted(worker, seq):
        return table
    order = np.lexsort((seq, worker))
    worker, seq = worker[order], seq[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (worker[1:] != worker[:-1]) | (seq[1:] != seq[:-1])
    return table.take(pa.array(order[is_first]))


def _of_pairs(left: NameColumn, right: NameColumn) -> tuple[NameColumn, NameColumn]:
    """Return two columns with one code for each pair of their values."""
    pairs = numbered(left.codes, right.codes)
    codes = pairs.number.astype(np.int32)
    left, right = (NameColumn(codes, of.at(pairs.first).arrow().dictionary_decode()) for of in (left, right))
    return left, right


def _is_sorted(worker: Array, seq: Array) -> bool:
    """Return whether the seq of each worker grows, and each worker's events stand together."""
    is_same = worker[1:] == worker[:-1]
    blocks = np.concatenate([worker[:1], worker[1:][~is_same]])
    return bool((seq[1:] > seq[:-1])[is_same].all()) and len(np.unique(blocks)) == len(blocks)
