"""Holds: which consumer held which copy, from when until when, and the counts of each consumer.

A hold begins with a delivery to a consumer and ends with the next event that can settle the copy. Both stand in one
segment of `Lives`, so the end of every hold comes from one walk backwards. How many copies a consumer held at a time
takes one sort of the beginnings and ends of holds (`groups.held_counts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.codes import COPY_KINDS
from leveret.pipeline.kernel.columns import NO_ROW, NULL, Array, pick, table
from leveret.pipeline.kernel.grouping import grouped
from leveret.pipeline.kernel.groups import Numbering, most_held, numbered
from leveret.pipeline.kernel.subjects.copies import IS_DELIVERY, IS_SETTLEMENT, Copies, among
from leveret.trace.events import PUSHES

_SUMMED = ("deliveries", "redeliveries", "acked", "nacked", "rejected")


@dataclass(frozen=True)
class Holds:
    """One row for each delivery, sorted by copy and time.

    `consumer` is the number of the consumer of a queue in a test, or of the channel that used basic.get; `consumers`
    has the first row of each. `until` is the position of the event that ended the hold, or NO_ROW, and `ended_by` its
    kind, or 0. A basic.get is not a hold, but it is a delivery.
    """

    event: Array
    consumer: Array
    consumers: Numbering
    place: Array
    is_hold: Array
    is_first: Array
    until: Array
    ended_by: Array


@dataclass(frozen=True)
class Consumers:
    """One row for each consumer, in the order of its number. `is_get` stands for the channels that used basic.get."""

    place: Array
    # One of its deliveries, its first and its last, as positions of events.
    event: Array
    first: Array
    last: Array
    is_get: Array
    deliveries: Array
    redeliveries: Array
    acked: Array
    nacked: Array
    rejected: Array
    max_unacked: Array


def holds_of(copies: Copies) -> Holds:
    """Return the deliveries of all copies with their ends."""
    events, lives = copies.events, copies.lives
    row = np.flatnonzero(IS_DELIVERY[lives.kind])
    event = lives.event[row]
    consumers = numbered(lives.place[row], events.conn[event], events.chan[event], events.consumer.codes[event])
    end = _next_settlement(copies)[row]
    return Holds(
        event=event,
        consumer=consumers.number,
        consumers=consumers,
        place=lives.place[row],
        is_hold=among(PUSHES)[lives.kind[row]],
        is_first=copies.first_delivery[lives.copies.of[row]] == event,
        until=pick(lives.event, end, NO_ROW),
        ended_by=pick(lives.kind, end, 0),
    )


def _next_settlement(copies: Copies) -> Array:
    """Return for each row of `Lives` the next row of its copy that can end a delivery, or NO_ROW."""
    lives = copies.lives
    count = len(lives.event)
    rows = np.where(IS_SETTLEMENT[lives.kind], np.arange(count), count)
    following = np.minimum.accumulate(rows[::-1])[::-1]
    is_of_copy = following <= lives.copies.last[lives.copies.of]
    return np.where(is_of_copy, following, NO_ROW)


def consumers_of(copies: Copies, holds: Holds) -> Consumers:
    """Return the counts of each consumer."""
    events, by_consumer = copies.events, holds.consumers
    event = holds.event[by_consumer.first]
    held = np.flatnonzero(holds.is_hold)

    def ended_by(kind: str) -> Array:
        return by_consumer.counts(holds.is_hold & (holds.ended_by == COPY_KINDS[kind]))

    return Consumers(
        place=holds.place[by_consumer.first],
        event=event,
        first=by_consumer.lowest(holds.event),
        last=by_consumer.highest(holds.event),
        is_get=events.consumer.codes[event] < 0,
        deliveries=by_consumer.counts(),
        redeliveries=by_consumer.counts(holds.is_hold & ~holds.is_first),
        acked=ended_by("acked"),
        nacked=ended_by("nacked"),
        rejected=ended_by("rejected"),
        max_unacked=most_held(holds.consumer[held], holds.event[held], holds.until[held], by_consumer.count),
    )


def holder_numbers(copies: Copies, holds: Holds, consumers: Consumers) -> tuple[Array, Array]:
    """Return the `holder` of each copy's first and last delivery: the seq of that consumer's first delivery.

    With run and worker it identifies the consumer, for any division of a run at its workers and tests.
    """
    events = copies.events
    by_event = np.full(len(events), NULL)
    held = np.flatnonzero(holds.is_hold)
    by_event[holds.event[held]] = events.seq[consumers.first[holds.consumer[held]]]
    return pick(by_event, copies.first_delivery), pick(by_event, copies.last_delivery)


def consumers(copies: Copies, rows: Consumers) -> pa.Table:
    """Return the table `consumers`."""
    events = copies.events
    counts = {name: getattr(rows, name) for name in ("redeliveries", "acked", "nacked", "rejected", "max_unacked")}
    return table(
        schema.CONSUMERS,
        {
            **copies.place_names(rows.place),
            "conn": events.conn[rows.event],
            "chan": events.chan[rows.event],
            "consumer": events.consumer.at(rows.event),
            "holder": events.seq[rows.first],
            "first_seq": events.seq[rows.first],
            "last_seq": events.seq[rows.last],
            "deliveries": rows.deliveries,
            **{name: np.where(rows.is_get, NULL, values) for name, values in counts.items()},
        },
    )


def consumer_stats(consumers: pa.Table) -> pa.Table:
    """Return the table `consumer_stats`: the sums of `consumers` over tests and workers, without basic.get."""
    named = consumers.filter(pc.is_valid(consumers["consumer"]))
    key = ("day", "run", "vhost", "queue", "consumer")
    return pa.Table.from_pylist(grouped(named, key, sums=_SUMMED, highest=["max_unacked"]), schema.CONSUMER_STATS)
