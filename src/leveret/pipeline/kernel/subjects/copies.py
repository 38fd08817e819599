"""Copies: the life of each message in each queue.

One sort by copy and time serves this table, the holds of consumers and some rules. In that order the events of a copy
stand side by side, so that every column is a first or a last event of some kinds, a minimum, a maximum or a count over
a segment. A column of a `Copies` object that names an event (`end`, `first_delivery`) holds its position in `Events`,
or NO_ROW; positions compare as sequence numbers do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.codes import COPY_KINDS, COUNTED, DEATH_REASONS, KINDS, OUTCOMES
from leveret.pipeline.kernel.columns import NO_ROW, NULL, Array, names_of, pick, table
from leveret.pipeline.kernel.events import Events
from leveret.pipeline.kernel.groups import Numbering, Segments, in_order, numbered
from leveret.trace.events import ARRIVALS, DEATHS, DELIVERIES, ENDS, REQUEUES, SETTLING


def among(kinds: Iterable[str]) -> Array:
    """Return for each number of COPY_KINDS whether it is one of these kinds."""
    return np.isin(np.arange(KINDS), [COPY_KINDS[kind] for kind in kinds])


# Whether an event of this kind is a delivery, to a consumer or by basic.get; and whether it can end a delivery.
IS_DELIVERY: Final = among(DELIVERIES)
IS_SETTLEMENT: Final = np.arange(KINDS) >= COPY_KINDS[SETTLING[0]]
_IS_ARRIVAL, _IS_DEATH, _IS_END = map(among, (ARRIVALS, DEATHS, ENDS))
_MAKES_READY: Final = among((*ARRIVALS, *REQUEUES))


@dataclass(frozen=True)
class Lives:
    """The events of copies, sorted by copy and time.

    A row has the position of the `event`, its `kind` (a number of COPY_KINDS) and the number of its `place`: the queue
    of a test of a worker. `copies` are the segments: one for each copy.
    """

    event: Array
    kind: Array
    place: Array
    places: Numbering
    copies: Segments


def lives_of(events: Events) -> Lives:
    """Sort the events of copies. A copy is the same if its place, its message and its number are."""
    event = np.flatnonzero((events.copy != NULL) & (events.copy_kind > 0))
    places = numbered(*(getattr(events, name).codes[event] for name in ("worker", "test", "vhost", "queue")))
    copy, msg = events.copy_ids[0][event], events.msg[event]
    order = in_order(copy)
    found = Segments.between(copy[order])
    if len(Segments.between(copy[order], places.number[order], msg[order]).starts) > found.count:
        # A copy whose events come from several tests has a row for each.
        order = in_order(copy, places.number, msg)
        found = Segments.between(copy[order], places.number[order], msg[order])
    first = Numbering(places.number, event[places.first])
    event = event[order]
    return Lives(event, events.copy_kind[event], places.number[order], first, found)


@dataclass(frozen=True)
class Copies:
    """One row for each copy. Columns that name an event hold its position, or NO_ROW."""

    events: Events
    lives: Lives
    # The number of the copy's place, and the first event of each place.
    place: Array
    place_event: Array
    msg: Array
    copy: Array
    src_copy: Array
    enqueue: Array
    first_delivery: Array
    last_delivery: Array
    settlement: Array
    last_settlement: Array
    end: Array
    ack: Array
    ready: Array
    last: Array
    enqueued_at: Array
    first_delivered_at: Array
    settled_at: Array
    deliveries: Array
    unflagged: Array
    death: Array
    # For each kind of COPY_KINDS, the number of events.
    counts: Array

    def __len__(self) -> int:
        return len(self.place)

    def count(self, *kinds: str) -> Array:
        """Return how many events of these kinds each copy has."""
        of_kinds: Array = self.counts[:, [COPY_KINDS[kind] for kind in kinds]].sum(axis=1)
        return of_kinds

    def seq(self, event: Array) -> Array:
        """Return the sequence numbers of a column of events; NULL for NO_ROW."""
        return pick(self.events.seq, event)

    @cached_property
    def is_open(self) -> Array:
        """Whether the copy has not ended."""
        is_open: Array = self.end == NO_ROW
        return is_open

    @cached_property
    def is_ready(self) -> Array:
        """Whether the last event made the copy ready."""
        is_ready: Array = self.last == self.ready
        return is_ready

    @cached_property
    def first_flag(self) -> Array:
        """The redelivered flag of the first delivery: 1, 0, or NULL."""
        flag = pick(self.events.redelivered.astype(np.int64), self.first_delivery)
        return np.where(flag < 0, NULL, flag)

    @cached_property
    def outcome(self) -> Array:
        """The index of the copy's outcome in OUTCOMES."""
        ends = [self.count(name) > 0 for name in OUTCOMES if name in ENDS]
        conditions = [*ends, self.last == self.last_delivery, self.is_ready]
        return np.select(conditions, range(len(conditions)), len(conditions)).astype(np.int8)

    @cached_property
    def of_event(self) -> Array:
        """For each event of the run, the row of its copy, or NO_ROW."""
        rows = np.full(len(self.events), NO_ROW)
        rows[self.lives.event] = self.lives.copies.of
        return rows

    def place_names(self, places: Array) -> dict[str, object]:
        """Return the columns day, run, worker, test, vhost and queue of these places."""
        rows = self.place_event[places]
        return {**self.events.file_of(rows), **self.events.names_of(rows, "test", "vhost", "queue")}


def copies_of(events: Events, lives: Lives) -> Copies:
    """Return one row for each copy: positions of events, minima, maxima and counts over its segment."""
    groups, kind = lives.copies, lives.kind
    at = events.ts[lives.event]
    is_delivery, is_end = IS_DELIVERY[kind], _IS_END[kind]
    counts = groups.counts(kind, KINDS)
    reason = events.reason.at(lives.event).numbers(DEATH_REASONS).astype(np.int64)

    def event(row: Array) -> Array:
        return pick(lives.event, row, NO_ROW)

    begin = lives.event[groups.starts]
    return Copies(
        events=events,
        lives=lives,
        place=lives.place[groups.starts],
        place_event=lives.places.first,
        msg=events.msg[begin],
        copy=events.copy[begin],
        src_copy=groups.highest(events.src_copy[lives.event]),
        enqueue=event(groups.first_where(_IS_ARRIVAL[kind])),
        first_delivery=event(groups.first_where(is_delivery)),
        last_delivery=event(groups.last_where(is_delivery)),
        settlement=event(groups.first_where(IS_SETTLEMENT[kind])),
        last_settlement=event(groups.last_where(IS_SETTLEMENT[kind])),
        end=event(groups.first_where(is_end)),
        ack=event(groups.first_where(kind == COPY_KINDS["acked"])),
        ready=event(groups.last_where(_MAKES_READY[kind])),
        last=lives.event[groups.last],
        enqueued_at=groups.lowest(at, _IS_ARRIVAL[kind]),
        first_delivered_at=groups.lowest(at, is_delivery),
        settled_at=groups.lowest(at, is_end),
        deliveries=counts[:, [COPY_KINDS[name] for name in DELIVERIES]].sum(axis=1),
        unflagged=np.bincount(groups.of[is_delivery & (events.redelivered[lives.event] == 0)], minlength=groups.count),
        # The number of the reason for being dead-lettered; the highest of several.
        death=groups.highest(np.where(_IS_DEATH[kind] & (reason > 0), reason, NULL)),
        counts=counts,
    )


def copies(rows: Copies, first_holder: Array, last_holder: Array) -> pa.Table:
    """Return the table `copies`. The holders are the numbers of the consumers of the first and the last delivery."""
    kind = rows.events.copy_kind.astype(np.int64)
    return table(
        schema.COPIES,
        {
            **rows.place_names(rows.place),
            "msg": rows.msg,
            "copy": rows.copy,
            "src_copy": rows.src_copy,
            "size": rows.lives.copies.highest(rows.events.size[rows.lives.event]),
            "enqueued_at": rows.enqueued_at,
            "enq_seq": rows.seq(rows.enqueue),
            "first_delivered_at": rows.first_delivered_at,
            "deliver_seq": rows.seq(rows.first_delivery),
            "first_redelivered": pa.array(rows.first_flag == 1, mask=rows.first_flag == NULL),
            "unflagged": rows.unflagged,
            "last_deliver_seq": rows.seq(rows.last_delivery),
            "holder": first_holder,
            "last_holder": last_holder,
            "settle_seq": rows.seq(rows.settlement),
            "settle_kind": pick(kind, rows.settlement),
            "last_settle_seq": rows.seq(rows.last_settlement),
            "last_settle_kind": pick(kind, rows.last_settlement),
            "settled_at": rows.settled_at,
            "end_seq": rows.seq(rows.end),
            "ack_seq": rows.seq(rows.ack),
            "ready_seq": rows.seq(rows.ready),
            "last_seq": rows.seq(rows.last),
            "deliveries": rows.deliveries,
            **{column: rows.count(name) for name, column in COUNTED.items()},
            "dl_reason": rows.death,
            "outcome": names_of(list(OUTCOMES), rows.outcome),
        },
    )
