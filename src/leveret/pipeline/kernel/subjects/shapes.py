"""Shapes: the fields of each kind of message with their types, and the clients that send and receive it.

The recorder wrote each shape once, and its hash at each message. So this counts the messages of each shape, and looks
into the few shapes. Only what tests show that have passed counts, and no message that the test itself has published,
unless a client has accepted it: a test also sends what a consumer has to reject.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.codes import COPY_KINDS
from leveret.pipeline.kernel.columns import NO_ROW, Array, NameColumn, pick, table
from leveret.pipeline.kernel.control import ControlEvents, attributes_at, text_at
from leveret.pipeline.kernel.events import Events
from leveret.pipeline.kernel.groups import Index, identified, numbered
from leveret.pipeline.kernel.subjects.copies import Copies, among
from leveret.pipeline.kernel.subjects.holds import Holds
from leveret.pipeline.kernel.subjects.messages import Messages
from leveret.pipeline.kernel.subjects.runs import RunFacts
from leveret.pipeline.kernel.subjects.tests import TestKey, TestLife
from leveret.trace.events import CONN_OPEN, DEATHS, DROPPED, NO_ACK, REFUSING, REQUEUES, printable
from leveret.trace.schema import SHAPE
from leveret.trace.shapes import client_pattern, key_pattern

# What a client does with messages. Those of deliveries come first.
_ACTIONS: Final = ("acked", "no_ack", "rejected", "requeued", "published")
_ACKED, _AUTO_ACKED, _REJECTED, _REQUEUED = range(4)
_PUBLISHED: Final = _ACTIONS[-1]
# The reasons of what follows from an act of a client.
_REASONS: Final = {NO_ACK: 1, "rejected": 2, "nacked": 3, "recovered": 4}
# The columns that say which kind of message it is.
_ADDRESS: Final = ("exchange", "routing_key", "name")
# Instead of a type: the messages of which each object has the field, and those of which one lacks it.
PRESENT: Final = "present"
ABSENT: Final = "absent"

# The exchange, the routing key and the name of messages, and the same with the codes of a day and a virtual host.
_Kind = tuple[str, str, str]
_KindOfDay = tuple[int, int, str, str, str]
# How often the values of two columns came, with a word or a queue.
_Counts = dict[_KindOfDay, Counter[tuple[str, str, str | None]]]


def shapes_of(
    control: ControlEvents,
    tests: Mapping[TestKey, TestLife],
    copies: Copies,
    holds: Holds,
    messages: Messages,
    about: Mapping[str, RunFacts],
) -> dict[str, pa.Table]:
    """Return the tables `run_shapes` and `run_clients`, with what is known of each run."""
    fields, clients = _counted(control, tests, copies, holds, messages)
    return {
        "run_shapes": _table(schema.RUN_SHAPES, control.events, fields, ("field", "type", "word"), about),
        "run_clients": _table(schema.RUN_CLIENTS, control.events, clients, ("client", "action", "queue"), about),
    }


def _counted(
    control: ControlEvents, tests: Mapping[TestKey, TestLife], copies: Copies, holds: Holds, messages: Messages
) -> tuple[_Counts, _Counts]:
    """Count the messages of each kind by field, type and word, and by client, action and queue."""
    events = control.events
    fields: _Counts = defaultdict(Counter)
    clients: _Counts = defaultdict(Counter)
    # A shape is known in the run whose events describe it.
    shapes: dict[int, tuple[_Kind, dict[str, list[str]]]] = {}
    shape_of = events.day.codes.astype(np.int64) * len(events.shape.texts) + events.shape.codes
    shape_of[events.shape.codes < 0] = NO_ROW
    rows = np.flatnonzero(events.kind.is_in([SHAPE]))
    for row, attributes in zip(rows.tolist(), attributes_at(events, rows), strict=True):
        kind = (events.exchange.text(row) or "", events.routing_key.text(row) or "", text_at(attributes, "name") or "")
        if events.shape.codes[row] >= 0:
            shapes[int(shape_of[row])] = kind, _of_fields(attributes, "fields", list)
        for field, words in _of_fields(attributes, "words", dict).items():
            counts = {(field, "word", str(word)): n for word, n in words.items() if type(n) is int}
            fields[_of_day(events, row, kind)].update(counts)
    if not shapes:
        return fields, clients

    sent = messages.event
    is_shown = np.isin(shape_of[sent], list(shapes)) & _has_passed(events, tests, sent)
    names, publisher, reader = _clients(control, sent, holds.event)
    message, action = messages.index.find(events.message_id[holds.event]), _actions(copies, holds)
    read = np.flatnonzero(pick(is_shown, message, 0).astype(bool) & (reader != NO_ROW) & (action != NO_ROW))
    is_accepted = np.zeros(len(sent), bool)
    is_accepted[message[read[action[read] <= _AUTO_ACKED]]] = True
    by_client = np.flatnonzero(is_shown & (publisher != NO_ROW))
    for row, n in _grouped(events, sent[is_shown & ((publisher != NO_ROW) | is_accepted)]):
        kind, types = shapes[int(shape_of[row])]
        for field, of_field in types.items():
            for name in of_field if ABSENT in of_field else (*of_field, PRESENT):
                if name != ABSENT:
                    fields[_of_day(events, row, kind)][field, str(name), None] += n
    for row, n, client in _grouped(events, sent[by_client], publisher[by_client]):
        kind, _ = shapes[int(shape_of[row])]
        clients[_of_day(events, row, kind)][names[client], _PUBLISHED, None] += n
    of_read = (reader[read], action[read], events.queue.codes[holds.event[read]])
    for row, n, client, act, queue in _grouped(events, sent[message[read]], *of_read):
        kind, _ = shapes[int(shape_of[row])]
        of_queue = key_pattern(printable(events.queue.texts[queue])) if queue >= 0 else None
        clients[_of_day(events, row, kind)][names[client], _ACTIONS[act], of_queue] += n
    return fields, clients


def _of_fields(attributes: Mapping[str, Any], name: str, kind: type) -> dict[str, Any]:
    """Return what a shape says of each field, if it is of this kind."""
    value = attributes.get(name)
    return {field: of for field, of in value.items() if isinstance(of, kind)} if isinstance(value, dict) else {}


def _of_day(events: Events, row: int, kind: _Kind) -> _KindOfDay:
    return int(events.day.codes[row]), int(events.vhost.codes[row]), *kind


def _grouped(events: Events, sent: Array, *keys: Array) -> Iterator[tuple[int, ...]]:
    """Yield one of the equal messages, their number, and their values of the keys."""
    groups = numbered(events.day.codes[sent], events.vhost.codes[sent], events.shape.codes[sent], *keys)
    columns = (sent[groups.first], groups.counts(), *(key[groups.first] for key in keys))
    return zip(*(column.tolist() for column in columns), strict=True)


def _has_passed(events: Events, tests: Mapping[TestKey, TestLife], rows: Array) -> Array:
    """Return whether the test of each event has passed, in its first attempt; true for events without a test."""
    count = len(events.test.texts)
    passed = [
        worker * count + test
        for (worker, test), life in tests.items()
        if test >= 0 and life.outcome == "passed" and not life.failures
    ]
    test = events.test.codes[rows].astype(np.int64)
    return (test < 0) | np.isin(events.worker.codes[rows] * count + test, passed)


def _clients(control: ControlEvents, *places: Array) -> tuple[list[str], Array, Array]:
    """Return the names of clients, and for two columns of events the number of each client, or NO_ROW."""
    events, opened = control.events, control.of_kind(CONN_OPEN)
    patterns = [client_pattern(text_at(attributes, "client")) for attributes in opened.parsed()]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(patterns)) if name is not None}
    rows = np.concatenate([opened.event, *places])
    connection = identified(events.worker.codes[rows], events.conn[rows])[0]
    found = Index(connection[: len(patterns)]).find(connection[len(patterns) :])
    of_event = pick(np.array([numbers.get(name or "", NO_ROW) for name in patterns], np.int64), found, NO_ROW)
    of_event = np.where(connection[len(patterns) :] == NO_ROW, NO_ROW, of_event)
    names = [name or "" for name in dict.fromkeys(patterns)]
    return names, of_event[: len(places[0])], of_event[len(places[0]) :]


def _actions(copies: Copies, holds: Holds) -> Array:
    """Return what the client did with each delivery, as a place in `_ACTIONS`, or NO_ROW."""
    events, lives = copies.events, copies.lives
    has_end = holds.until != NO_ROW
    row = np.zeros(len(events), np.int64)
    row[lives.event] = np.arange(len(lives.event))
    end = row[holds.until]
    # A nack or a reject says nothing of what becomes of the copy; the event after it does.
    is_refused = among(REFUSING)[holds.ended_by]
    after = np.minimum(end + is_refused, len(lives.event) - 1)
    is_known = has_end & (lives.copies.of[after] == lives.copies.of[end])
    kind, reason = lives.kind[after], events.reason.at(lives.event[after]).numbers(_REASONS)
    conditions = {
        _AUTO_ACKED: (kind == COPY_KINDS["acked"]) & (reason == _REASONS[NO_ACK]),
        _ACKED: kind == COPY_KINDS["acked"],
        _REJECTED: among((*DEATHS, DROPPED))[kind] & (reason == 2),
        _REQUEUED: among(REQUEUES)[kind] & (reason > 1),
    }
    return np.where(is_known, np.select(list(conditions.values()), list(conditions), NO_ROW), NO_ROW)


def _table(
    columns: pa.Schema, events: Events, counts: _Counts, names: tuple[str, ...], about: Mapping[str, RunFacts]
) -> pa.Table:
    every = [(kind, of, n) for kind, of_kind in counts.items() for of, n in of_kind.items()]
    days = np.array([kind[0] for kind, _, _ in every], np.int64)
    vhosts = np.array([kind[1] for kind, _, _ in every], np.int32)
    given: dict[str, object] = {
        "run": NameColumn(days, events.run.distinct),
        "day": NameColumn(days, events.day.distinct),
        "vhost": NameColumn(vhosts, events.vhost.distinct),
        "commit": [about[events.run.texts[day]].commit for day in days.tolist()],
        "began": [about[events.run.texts[day]].began for day in days.tolist()],
        **{name: [kind[at] for kind, _, _ in every] for at, name in enumerate(_ADDRESS, 2)},
        **{name: [of[at] for _, of, _ in every] for at, name in enumerate(names)},
        "n": [n for _, _, n in every],
    }
    return table(columns, given)
