"""Queues: what went through each queue, how deep it became, and in which order copies left it.

`test_queues` sums the columns of `copies` by place: the queue of a test of a worker. Its depth needs one sort of
arrivals and ends by place and time, with a running sum. The order of copies needs one sort of arrivals by place and
time, and a walk backwards: what was delivered among the younger copies. The other tables add up these rows, or count
the copies' times by queue and bucket.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.codes import DEATH_REASONS, GROWTH
from leveret.pipeline.kernel.columns import NO_ROW, NULL, Array, names_of, table
from leveret.pipeline.kernel.grouping import grouped
from leveret.pipeline.kernel.groups import Numbering, Segments, in_order, most_held, numbered
from leveret.pipeline.kernel.subjects.copies import Copies
from leveret.trace.events import ARRIVALS

_MEASURES = ("wait", "process")


@dataclass(frozen=True)
class QueueOrder:
    """The copies that were enqueued, sorted by queue and time, and what was delivered of younger ones.

    `copy` is a row of `Copies`. `younger_first` and `younger_last` are the positions of the earliest and the latest
    first delivery of a younger copy (NEVER and -1 if there is none).
    """

    copies: Copies
    copy: Array
    younger_first: Array
    younger_last: Array
    queues: Segments

    @property
    def is_late(self) -> Array:
        """Whether a younger copy was first delivered before this one."""
        is_late: Array = self.copies.first_delivery[self.copy] > self.younger_first
        return is_late

    @property
    def is_passed(self) -> Array:
        """Whether a copy stayed ready while a younger one was first delivered."""
        is_waiting = self.copies.is_open[self.copy] & self.copies.is_ready[self.copy]
        return is_waiting & (self.younger_last > self.copies.ready[self.copy])

    @property
    def is_unordered(self) -> Array:
        """Whether a younger copy is of the same or an earlier message, or the copy may be enqueued twice.

        A queue without an unordered copy has no repeated message.
        """
        message = self.copies.msg[self.copy]
        ranked = np.where(message == NULL, -1, numbered(message).number)
        is_repeated = self.copies.count(*ARRIVALS)[self.copy] > 1
        is_unordered: Array = (message == NULL) | (ranked >= self.queues.least_after(ranked)) | is_repeated
        return is_unordered


def order_of(copies: Copies, queue: Array, chosen: Array | None = None) -> QueueOrder:
    """Return the order in which copies came into queues.

    `queue` is a number for each copy: copies with equal numbers are compared. `chosen` are the rows to compare, all if
    it is None.
    """
    is_enqueued = copies.enqueue != NO_ROW
    copy = np.flatnonzero(is_enqueued) if chosen is None else chosen[is_enqueued[chosen]]
    copy = copy[in_order(queue[copy], copies.enqueue[copy])]
    queues = Segments.between(queue[copy])
    delivery = copies.first_delivery[copy]
    return QueueOrder(copies, copy, queues.least_after(delivery), queues.greatest_after(delivery), queues)


def max_depths(copies: Copies) -> Array:
    """Return the greatest number of copies in each place at a time."""
    comes = np.flatnonzero(copies.enqueue != NO_ROW)
    enqueue, end = copies.enqueue[comes], copies.end[comes]
    return most_held(copies.place[comes], enqueue, np.where(end > enqueue, end, NO_ROW), len(copies.place_event))


@dataclass(frozen=True)
class TestQueues:
    """One row for each place, with the columns of `test_queues` by name."""

    copies: Copies
    columns: dict[str, Array]

    @property
    def is_out_of_order(self) -> Array:
        """Whether a copy of the place may have been overtaken."""
        return (self.columns["late"] > 0) | (self.columns["passed"] > 0)


def test_queues_of(copies: Copies) -> TestQueues:
    """Return the counts of each place."""
    places = Numbering(copies.place, copies.place_event)
    order = order_of(copies, copies.place)
    ordered = Numbering(copies.place[order.copy], copies.place_event)
    return TestQueues(
        copies,
        {
            "copies": places.counts(),
            "deliveries": places.sums(copies.deliveries),
            "redeliveries": places.sums(np.maximum(copies.deliveries - 1, 0)),
            "acked": places.counts(copies.count("acked") > 0),
            "leaked": places.counts(copies.is_open),
            **{f"dead_{reason}": places.counts(copies.death == number) for reason, number in DEATH_REASONS.items()},
            "dropped": places.counts(copies.count("dropped") > 0),
            "max_depth": max_depths(copies),
            "late": ordered.counts(order.is_late),
            "passed": ordered.counts(order.is_passed),
            "unordered": ordered.counts(order.is_unordered),
        },
    )


def test_queues(rows: TestQueues) -> pa.Table:
    """Return the table `test_queues`."""
    places = np.arange(len(rows.copies.place_event))
    return table(schema.TEST_QUEUES, {**rows.copies.place_names(places), **rows.columns})


def latency_hist(copies: Copies) -> pa.Table:
    """Return the table `latency_hist`: how long copies waited before their first delivery, and from there to their end.

    There is a row for each measure, queue of the run and bucket, in this order.
    """
    events, place = copies.events, copies.place_event
    queues = numbered(events.day.codes[place], events.vhost.codes[place], events.queue.codes[place])
    instants = (copies.enqueued_at, copies.first_delivered_at, copies.settled_at)
    keys = []
    for number, (begin, end) in enumerate(pairwise(instants)):
        measured = np.flatnonzero((begin != NULL) & (end != NULL) & (end >= begin))
        queue, bucket = queues.number[copies.place[measured]], bucket_of(end[measured] - begin[measured])
        keys.append((np.full(len(measured), number), queue, bucket))
    measure, queue, bucket = (np.concatenate(columns) for columns in zip(*keys, strict=True))
    groups = numbered(measure, queue, bucket)
    first = place[queues.first][queue[groups.first]]
    return table(
        schema.LATENCY_HIST,
        {
            **events.run_of(first),
            **events.names_of(first, "vhost", "queue"),
            "measure": names_of(list(_MEASURES), measure[groups.first]),
            "bucket": bucket[groups.first],
            "n": groups.counts(),
        },
    )


def bucket_of(span_us: Array) -> Array:
    """Return the bucket of a logarithmic histogram for spans in microseconds."""
    at_least_one = np.maximum(span_us, 1).astype(np.float64)
    bucket = np.floor(np.log(at_least_one) / np.log(GROWTH)).astype(np.int64) + 1
    return np.where(span_us == 0, 0, bucket)


def within(buckets: Sequence[tuple[int, int]], share: float) -> float:
    """Return the span, in microseconds, within which there is this share of the values of sorted buckets."""
    wanted = sum(n for _, n in buckets) * share
    reached = zip(accumulate(n for _, n in buckets), buckets, strict=True)
    return float(GROWTH ** max(next(bucket for so_far, (bucket, _) in reached if so_far >= wanted), 0))


def queue_stats(test_queues: pa.Table, latency_hist: pa.Table) -> pa.Table:
    """Return the table `queue_stats`: the sums of `test_queues` over tests and workers, and of depths the greatest."""
    times: dict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
    key = ("day", "run", "vhost", "queue")
    for row in grouped(latency_hist, (*key, "measure", "bucket"), sums=["n"]):
        times[*(row[name] for name in key), row["measure"]].append((row["bucket"], row["n"]))
    queues = grouped(test_queues, key, sums=schema.SUMMED_OF_QUEUES, highest=["max_depth"])
    for row in queues:
        for measure in _MEASURES:
            row[f"{measure}_hist"] = times.get((*(row[name] for name in key), measure), [])
    return pa.Table.from_pylist(queues, schema.QUEUE_STATS)
