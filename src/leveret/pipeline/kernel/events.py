"""The events of one run as columns, in the order of time within each worker.

The position of an event in this order stands for its `seq` everywhere: positions are dense, so sorts and sums over them
are cheap, and one position is one event of one worker. A run's events are sorted by worker and seq only if its files do
not have them in this order already.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel.codes import COPY_KINDS
from leveret.pipeline.kernel.columns import Array, NameColumn, flags, numbers
from leveret.pipeline.kernel.groups import identified

# The columns of `events` that the tables need.
NEEDED = (
    *("day", "run", "worker", "seq", "ts", "kind", "test", "vhost", "conn", "chan", "msg", "copy", "src_copy"),
    *("exchange", "routing_key", "queue", "consumer", "tag", "redelivered", "count", "reason", "size", "shape"),
    "attrs",
)
# What identifies an event.
EVENT_KEY = ("run", "worker", "seq")


@dataclass(frozen=True)
class Events:
    """The events of a run: an array or a NameColumn for each column, with a value for each event."""

    # The rows in Arrow, of which `control` keeps a few.
    table: pa.Table
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

    def run_of(self, rows: Array) -> dict[str, object]:
        """Return the columns day and run of these events."""
        runs = self.table["run"].slice(0, 1).cast(pa.string()).combine_chunks()
        return {
            "day": self.day.at(rows),
            "run": NameColumn(np.zeros(len(rows), np.int32), runs),
        }

    def file_of(self, rows: Array) -> dict[str, object]:
        """Return the columns day, run and worker of these events."""
        return {**self.run_of(rows), "worker": self.worker.at(rows)}

    def names_of(self, rows: Array, *columns: str) -> dict[str, object]:
        """Return these columns of strings for these events."""
        return {name: getattr(self, name).at(rows) for name in columns}


def each_once(table: pa.Table) -> pa.Table:
    """Return the events in the order of worker and seq, each once."""
    worker, seq = NameColumn.of(table["worker"]).codes, numbers(table["seq"])
    if _is_sorted(worker, seq):
        return table
    order = np.lexsort((seq, worker))
    worker, seq = worker[order], seq[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (worker[1:] != worker[:-1]) | (seq[1:] != seq[:-1])
    return table.take(pa.array(order[is_first]))


def _is_sorted(worker: Array, seq: Array) -> bool:
    """Return whether the seq of each worker grows, and each worker's events stand together."""
    is_same = worker[1:] == worker[:-1]
    blocks = np.concatenate([worker[:1], worker[1:][~is_same]])
    return bool((seq[1:] > seq[:-1])[is_same].all()) and len(np.unique(blocks)) == len(blocks)
