"""Counts: the numbers of one run that `changes` compares with those of other runs, from other tables.

A number that is 0 has no row. Most numbers are of a test and a queue. Times are of a queue, and types of a kind of
message, whatever the test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import NO_ROW, NULL
from leveret.pipeline.kernel.control import attributes_at, text_at
from leveret.pipeline.kernel.events import Events
from leveret.pipeline.kernel.grouping import Row, grouped
from leveret.pipeline.kernel.groups import Numbering
from leveret.pipeline.kernel.subjects.copies import Copies
from leveret.pipeline.kernel.subjects.queues import within
from leveret.pipeline.kernel.subjects.runs import RunFacts
from leveret.pipeline.kernel.subjects.shapes import PRESENT
from leveret.trace.events import REFUSED

# The outcomes of tests, best first: `n` of the measure "outcome" is a position here.
OUTCOMES: Final = ("passed", "xfailed", "skipped", "xpassed", "failed", "error")
_OF_QUEUES: Final = ("published", "redeliveries", "leaked", "dropped", "late")


def run_counts(tables: Mapping[str, pa.Table], copies: Copies, about: Mapping[str, RunFacts]) -> pa.Table:
    """Return the table `run_counts`, from other tables and what is known of each run."""
    of_queue = ("day", "run", "test", "vhost", "queue")
    is_published = (copies.enqueue != NO_ROW) & (copies.src_copy == NULL)
    published = Numbering(copies.place, copies.place_event).counts(is_published)
    # The rows of test_queues are in the order of places.
    queues = tables["test_queues"].append_column("published", pa.array(published))
    messages = tables["messages"].select(["day", "run", "test", "vhost", "copies", "returned"])
    dropped = messages.filter(pc.and_not(pc.equal(messages["copies"], 0), messages["returned"]))
    rows: list[Row] = []
    for row in grouped(queues, of_queue, sums=_OF_QUEUES, highest=["max_depth"]):
        row["depth"] = row["max_depth"]
        rows += [{**row, "measure": name, "n": row[name]} for name in (*_OF_QUEUES, "depth") if row[name]]
    for row in grouped(dropped, ("day", "run", "test", "vhost")):
        rows.append({**row, "measure": "dropped", "n": row["count"]})
    for row in tables["run_lineage"].to_pylist():
        rows.append({**row, "queue": row["from_queue"], "measure": "dead_letters"})
    for row in tables["tests"].select(["day", "run", "test", "outcome"]).to_pylist():
        if row["outcome"] in OUTCOMES:
            rows.append({**row, "measure": "outcome", "n": OUTCOMES.index(row["outcome"])})
    rows += [*_refusals(copies.events), *_waits(tables["latency_hist"]), *_shapes(tables["run_shapes"])]
    return pa.Table.from_pylist([{**row, **about[row["run"]].columns} for row in rows], schema.RUN_COUNTS)


def _refusals(events: Events) -> Iterator[Row]:
    """Count what clients were refused, by the reply code."""
    refused = np.flatnonzero(events.kind.is_in([REFUSED]))
    codes = pa.array([text_at(each, "code") for each in attributes_at(events, refused)], pa.string())
    names = {**events.run_of(refused), **events.names_of(refused, "test", "vhost")}
    rows = pa.table({"reason": codes, **{name: of.arrow() for name, of in names.items()}})
    for row in grouped(rows, rows.column_names):
        yield {**row, "measure": "refused", "n": row["count"]}


def _waits(latency_hist: pa.Table) -> Iterator[Row]:
    """Return the median time that copies waited in each queue, in microseconds."""
    key = ("day", "run", "vhost", "queue")
    waits = latency_hist.filter(pc.equal(latency_hist["measure"], "wait"))
    buckets: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
    for row in waits.select([*key, "bucket", "n"]).to_pylist():
        buckets[itemgetter(*key)(row)].append((row["bucket"], row["n"]))
    for place, of in buckets.items():
        yield {**dict(zip(key, place, strict=True)), "measure": "wait", "n": round(within(sorted(of), 0.5))}


def _shapes(run_shapes: pa.Table) -> Iterator[Row]:
    """Return the types that the fields of each kind of message had."""
    types = run_shapes.filter(pc.and_(pc.is_null(run_shapes["word"]), pc.not_equal(run_shapes["type"], PRESENT)))
    for row in types.drop_columns(["word", "n"]).to_pylist():
        yield {**row, "measure": "shape", "reason": row["type"], "n": 1}
