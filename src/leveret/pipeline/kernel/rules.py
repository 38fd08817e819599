"""Rules: what a broker or its clients must not do, as a table of rules with a function and a text each.

A rule's function returns the copies (or the messages) that break it, with the values that its text shows in {braces}.
The names of those that are events, by their `seq`, end in `_seq`.
Most rules compare columns of `Copies`. The others first use counts in other tables to find the queues, channels and
consumers where something is wrong, and then examine only those: the order of copies in a queue needs the walk of
`queues.order_of`, and the copies that a consumer held need the sort of `groups.held_counts`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from leveret.pipeline.kernel.columns import NEVER, NO_ROW, NULL, Array, pick
from leveret.pipeline.kernel.control import ControlEvents, attributes_at, text_at, whole_number_at
from leveret.pipeline.kernel.events import Events
from leveret.pipeline.kernel.groups import Index, held_counts, in_order, numbered
from leveret.pipeline.kernel.subjects.copies import Copies
from leveret.pipeline.kernel.subjects.holds import Consumers, Holds
from leveret.pipeline.kernel.subjects.messages import Messages
from leveret.pipeline.kernel.subjects.queues import QueueOrder, TestQueues, order_of
from leveret.pipeline.kernel.subjects.tests import TestKey, TestLife
from leveret.trace.events import ARRIVALS, CHAN_CLOSE, CHAN_OPEN, CONN_CLOSE, CONSUME, QUEUE_DECLARE


@dataclass(frozen=True)
class RuleInput:
    """What rules are checked on."""

    events: Events
    control: ControlEvents
    tests: dict[TestKey, TestLife]
    copies: Copies
    messages: Messages
    holds: Holds
    consumers: Consumers
    queues: TestQueues

    @cached_property
    def order(self) -> QueueOrder:
        """The order of the copies in queues where one may have been overtaken, within each attempt of a test.

        A retried test has a fresh broker, and in it another queue of the same name.
        """
        chosen = np.flatnonzero(self.queues.is_out_of_order[self.copies.place])
        queue = np.full(len(self.copies), NO_ROW)
        queue[chosen] = numbered(self.copies.place[chosen], _attempts(self, chosen)).number
        return order_of(self.copies, queue, chosen)


@dataclass(frozen=True)
class Broken:
    """The rows that break a rule, and the values of the rule's text for each of them. NULL shows as "none"."""

    rows: Array
    values: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class TraceRule:
    """A rule: its function, and the text for each row that the function finds.

    The rows are those of `Copies`, or those of `Messages` if the rule is `about_messages`. `of_end` marks a rule about
    what had not happened by the end of a test. Such a rule does not apply to a test whose end is missing because its
    file was cut.
    """

    name: str
    find: Callable[[RuleInput], Broken]
    text: str
    about_messages: bool = False
    of_end: bool = False


def acked_twice(run: RuleInput) -> Broken:
    """Find copies with more than one ack."""
    acks = run.copies.count("acked")
    rows = np.flatnonzero(acks > 1)
    return Broken(rows, {"acks": acks[rows]})


def delivered_after_ack(run: RuleInput) -> Broken:
    """Find copies that were delivered before their first ack and again after it."""
    copies = run.copies
    is_before = (copies.first_delivery != NO_ROW) & (copies.first_delivery < copies.ack)
    rows = np.flatnonzero(is_before & (copies.last_delivery > copies.ack))
    return Broken(rows, {"ack_seq": copies.seq(copies.ack[rows]), "last_seq": copies.seq(copies.last_delivery[rows])})


def ack_without_delivery(run: RuleInput) -> Broken:
    """Find copies without a delivery before their first ack."""
    copies = run.copies
    is_undelivered = (copies.first_delivery == NO_ROW) | (copies.first_delivery > copies.ack)
    rows = np.flatnonzero((copies.ack != NO_ROW) & is_undelivered)
    return Broken(rows, {"ack_seq": copies.seq(copies.ack[rows])})


def unacked_at_end(run: RuleInput) -> Broken:
    """Find copies without an end whose last event is a delivery."""
    copies = run.copies
    rows = np.flatnonzero(copies.is_open & (copies.last == copies.last_delivery))
    return Broken(rows, {"last_seq": copies.seq(copies.last[rows])})


def redelivered_flag_wrong(run: RuleInput) -> Broken:
    """Find copies whose redelivered flags do not agree with their deliveries.

    The first delivery of a dead letter has the flag on RabbitMQ 4.3, and not on 3.10.
    """
    copies = run.copies
    is_first_wrong = (copies.first_flag == 1) & (copies.src_copy == NULL)
    return Broken(np.flatnonzero(is_first_wrong | (copies.unflagged > (copies.first_flag == 0))))


def lost(run: RuleInput) -> Broken:
    """Find copies that stayed ready although a younger one was first delivered meanwhile.

    In a queue with priorities, a younger message of higher priority goes first.
    """
    found = np.flatnonzero(run.order.is_passed & ~_goes_by_priority(run))
    rows = run.order.copy[found]
    ready, younger = run.copies.ready[rows], run.order.younger_last[found]
    return Broken(rows, {"ready_seq": run.copies.seq(ready), "younger_seq": run.copies.seq(younger)})


def out_of_order(run: RuleInput) -> Broken:
    """Find copies that were first delivered after a younger one, in queues without priorities."""
    found = np.flatnonzero(run.order.is_late & ~_goes_by_priority(run))
    rows = run.order.copy[found]
    delivery, younger = run.copies.first_delivery[rows], run.order.younger_first[found]
    return Broken(rows, {"deliver_seq": run.copies.seq(delivery), "younger_seq": run.copies.seq(younger)})


def duplicate_enqueue(run: RuleInput) -> Broken:
    """Find copies of a message that their queue had already got from the same origin."""
    copies = run.copies
    is_suspicious = (run.queues.columns["unordered"] > 0)[copies.place]
    chosen = np.flatnonzero(is_suspicious & (copies.enqueue != NO_ROW))
    same = numbered(copies.place[chosen], copies.msg[chosen], copies.src_copy[chosen])
    first = same.lowest(copies.enqueue[chosen])
    is_later = copies.enqueue[chosen] > first[same.number]
    return Broken(chosen[is_later | (copies.count(*ARRIVALS)[chosen] > 1)])


def delivered_to_closed_channel(run: RuleInput) -> Broken:
    """Find deliveries after their channel or connection was closed, and not opened again.

    A channel without open and close events counts as open.
    """
    events, holds, consumers = run.events, run.holds, run.consumers
    connection = (events.worker.codes, events.conn)
    channel = (*connection, events.chan)
    changes, lost = run.control.of_kind(CHAN_OPEN, CHAN_CLOSE).event, run.control.of_kind(CONN_CLOSE).event
    is_close = events.kind.is_in([CHAN_CLOSE])
    # A consumer that got nothing after the first close of its channel or connection needs no further look.
    first_close = _first_alike(changes[is_close[changes]], consumers.event, channel)
    first_close = np.minimum(first_close, _first_alike(lost, consumers.event, connection))
    is_suspicious = (first_close < consumers.last) & (events.conn[consumers.event] != NULL)
    event = holds.event[is_suspicious[holds.consumer]]
    change = _last_alike_before(changes, event, channel)
    is_closed = (change != NO_ROW) & is_close[change]
    event = event[is_closed | (_first_alike(lost, event, connection) < event)]
    return Broken(run.copies.of_event[event], {"chan": events.chan[event], "conn": events.conn[event]})


def prefetch_exceeded(run: RuleInput) -> Broken:
    """Find deliveries to consumers that already held as many copies as the prefetch at their consume allowed.

    Gets, and consumers with automatic acks, do not count.
    """
    events, holds, consumers = run.events, run.holds, run.consumers
    names = (events.worker, events.test, events.vhost, events.queue, events.consumer)
    consumer = (*(of.codes for of in names), events.conn, events.chan)
    consumes = run.control.of_kind(CONSUME)
    limit = np.array([_limit(attributes) for attributes in consumes.parsed()], np.int64)
    # A consumer that never held more than the least of its limits needs no further look.
    number, mine, count = _numbered_alike(consumes.event, consumers.event, consumer)
    least = np.full(count, NEVER)
    np.minimum.at(least, number, limit)
    is_suspicious = consumers.max_unacked > least[mine]
    chosen = np.flatnonzero(is_suspicious[holds.consumer] & holds.is_hold)
    consume = _last_alike_before(consumes.event, holds.event[chosen], consumer)
    chosen, consume = chosen[consume != NO_ROW], consume[consume != NO_ROW]
    in_force = limit[Index(consumes.event).find(consume)]
    row, unacked = held_counts(consume, holds.event[chosen], holds.until[chosen])
    row = row[unacked > in_force[row]]
    return Broken(run.copies.of_event[holds.event[chosen[row]]], {"prefetch": in_force[row]})


def confirm_missing(run: RuleInput) -> Broken:
    """Find publishes in confirm mode that were neither confirmed nor nacked."""
    number = run.events.tag[run.messages.event]
    rows = np.flatnonzero((number != NULL) & (run.messages.confirmed < 0))
    return Broken(rows, {"publish_number": number[rows]})


RULES: Final = (
    TraceRule("acked_twice", acked_twice, "acknowledged {acks} times"),
    TraceRule("delivered_after_ack", delivered_after_ack, "acknowledged at {ack_seq}, delivered again at {last_seq}"),
    TraceRule("ack_without_delivery", ack_without_delivery, "acknowledged at {ack_seq}, before any delivery"),
    TraceRule("unacked_at_end", unacked_at_end, "delivered at {last_seq} and never settled", of_end=True),
    TraceRule(
        "redelivered_flag_wrong", redelivered_flag_wrong, "its deliveries and their redelivered flags do not agree"
    ),
    TraceRule(
        "lost",
        lost,
        "ready since {ready_seq} and never delivered, although a younger message was delivered at {younger_seq}",
        of_end=True,
    ),
    TraceRule(
        "out_of_order", out_of_order, "first delivered at {deliver_seq}, after a younger message at {younger_seq}"
    ),
    TraceRule("duplicate_enqueue", duplicate_enqueue, "the queue had this message already, from the same origin"),
    TraceRule(
        "delivered_to_closed_channel",
        delivered_to_closed_channel,
        "delivered to channel {chan} of connection {conn} while the channel was closed",
    ),
    TraceRule(
        "prefetch_exceeded",
        prefetch_exceeded,
        "delivered to a consumer that already held as many as its prefetch of {prefetch}",
    ),
    TraceRule(
        "confirm_missing",
        confirm_missing,
        "publish {publish_number} of its channel was neither confirmed nor nacked",
        about_messages=True,
        of_end=True,
    ),
)


def _attempts(run: RuleInput, chosen: Array) -> Array:
    """Return a number for the attempt in which each of these copies was enqueued: it grows from attempt to attempt."""
    events, copies = run.events, run.copies
    index = {key: number for number, key in enumerate(run.tests)}
    starts = sorted(index[key] * len(events) + start for key, life in run.tests.items() for start in life.starts)
    workers, tests = (getattr(events, name).codes[copies.place_event].tolist() for name in ("worker", "test"))
    of_place = np.array([index.get(key, NO_ROW) for key in zip(workers, tests, strict=True)], np.int64)
    test = of_place[copies.place[chosen]]
    return np.searchsorted(np.array(starts, np.int64), test * len(events) + copies.enqueue[chosen], side="right")


def _goes_by_priority(run: RuleInput) -> Array:
    """Return for each copy of `RuleInput.order` whether messages of its queue may go first by their priority.

    A classic queue does so if it was declared with x-max-priority in its test. A quorum queue does so from RabbitMQ 4.0
    on, if a message has a priority. A queue that the test did not declare may be either.
    """
    events, copies = run.events, run.copies
    declares = run.control.of_kind(QUEUE_DECLARE)
    arguments = [
        [text_at(attributes, "arguments", name) for name in ("x-max-priority", "x-queue-type")]
        for attributes in declares.parsed()
    ]
    place = (events.worker.codes, events.test.codes, events.vhost.codes, events.queue.codes)
    number, mine, _ = _numbered_alike(declares.event, copies.place_event, place)
    has_maximum = np.isin(mine, number[np.array([maximum is not None for maximum, _ in arguments], bool)])
    is_classic = np.isin(mine, number[np.array([kind == "classic" for _, kind in arguments], bool)])
    chosen = np.flatnonzero((run.queues.is_out_of_order & ~is_classic)[copies.place])
    published = pick(run.messages.event, run.messages.index.find(events.message_id[copies.last[chosen]]), NO_ROW)
    chosen, published = chosen[published != NO_ROW], published[published != NO_ROW]
    attributes = attributes_at(events, published)
    is_prioritized = [text_at(each, "properties", "priority") is not None for each in attributes]
    has_prioritized = np.zeros(len(copies.place_event), bool)
    has_prioritized[copies.place[chosen[np.array(is_prioritized, bool)]]] = True
    return (has_maximum | has_prioritized)[copies.place[run.order.copy]]


def _limit(attributes: dict[str, Any]) -> int:
    """Return how many copies a consumer may hold, by the attributes of its consume; NEVER for no limit."""
    prefetch = whole_number_at(attributes, "prefetch_count")
    return prefetch if prefetch is not None and prefetch > 0 and not attributes.get("no_ack") else NEVER


# Columns of `Events` by which events are alike.
_Columns = tuple[Array, ...]


def _numbered_alike(events: Array, others: Array, columns: _Columns) -> tuple[Array, Array, int]:
    """Number two lists of events by the same columns: those that are alike get equal numbers. Also return how many."""
    both = numbered(*(column[np.concatenate([events, others])] for column in columns))
    return both.number[: len(events)], both.number[len(events) :], both.count


def _first_alike(happened: Array, events: Array, columns: _Columns) -> Array:
    """Return for each event the first one that happened and is alike, or NEVER."""
    number, mine, count = _numbered_alike(happened, events, columns)
    first = np.full(count, NEVER)
    first[number[::-1]] = happened[::-1]
    return first[mine]


def _last_alike_before(happened: Array, events: Array, columns: _Columns) -> Array:
    """Return for each event the last one that happened before it and is alike, or NO_ROW."""
    if not len(happened):
        return np.full(len(events), NO_ROW)
    number, mine, _ = _numbered_alike(happened, events, columns)
    order = in_order(number, happened)
    number, happened = number[order], happened[order]
    span = len(columns[0])
    found = np.searchsorted(number * span + happened, mine * span + events) - 1
    return np.where((found >= 0) & (number[found] == mine), happened[found], NO_ROW)
