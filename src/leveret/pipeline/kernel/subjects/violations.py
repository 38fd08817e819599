"""Violations: a row for each copy or message and each rule that it breaks, with a text for readers.

The rules do the work; this writes down what they found. It needs no sort. Each text is made by itself, because few
copies break a rule.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import NULL, Array, NameColumn, table
from leveret.pipeline.kernel.groups import numbered
from leveret.pipeline.kernel.rules import RULES, Broken, RuleInput, TraceRule
from leveret.pipeline.kernel.subjects.runs import RunFacts


def violations(run: RuleInput, about: Mapping[str, RunFacts]) -> pa.Table:
    """Return the table `violations`. `about` says which workers of a run were cut."""
    is_unfinished = _unfinished(run, about)
    parts = []
    for rule in RULES:
        broken = rule.find(run)
        event = _events_of(run, rule, broken.rows)
        if rule.of_end:
            is_kept = ~is_unfinished[event]
            values = {name: of[is_kept] for name, of in broken.values.items()}
            broken, event = Broken(broken.rows[is_kept], values), event[is_kept]
        if len(event):
            parts.append(_part(run, rule, _told(rule, broken)))
    if not parts:
        return schema.VIOLATIONS.empty_table()
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _told(rule: TraceRule, broken: Broken) -> dict[int, tuple[str, list[int]]]:
    """Return the text for each row that breaks a rule, and the events that the text names.

    A row that breaks the rule several times gets the first of its texts by the alphabet.
    """
    told: dict[int, tuple[str, list[int]]] = {}
    is_event = [name.endswith("_seq") for name in broken.values]
    columns = [values.tolist() for values in broken.values.values()]
    for row, *values in zip(broken.rows.tolist(), *columns, strict=True):
        shown = ["none" if value == NULL else value for value in values]
        text = rule.text.format_map(dict(zip(broken.values, shown, strict=True)))
        seqs = [value for value, is_named in zip(values, is_event, strict=True) if is_named and value != NULL]
        told[row] = min((text, seqs), told.get(row, (text, seqs)))
    return told


def _events_of(run: RuleInput, rule: TraceRule, rows: Array) -> Array:
    """Return an event of each row, which has the worker, the test, the virtual host and the queue."""
    return run.messages.event[rows] if rule.about_messages else run.copies.place_event[run.copies.place[rows]]


def _part(run: RuleInput, rule: TraceRule, told: dict[int, tuple[str, list[int]]]) -> pa.Table:
    rows, count = np.array(list(told), np.int64), len(told)
    events, event = run.events, _events_of(run, rule, rows)
    queue, msg, copy = events.queue.at(event), events.msg[event], np.full(count, NULL)
    if rule.about_messages:
        queue = NameColumn(np.full(count, -1), queue.distinct)
    else:
        msg, copy = run.copies.msg[rows], run.copies.copy[rows]
    return table(
        schema.VIOLATIONS,
        {
            **events.file_of(event),
            **events.names_of(event, "test", "vhost"),
            "queue": queue,
            "msg": msg,
            "copy": copy,
            "rule": [rule.name] * count,
            "text": [text for text, _ in told.values()],
            "seqs": [seqs for _, seqs in told.values()],
        },
    )


def _unfinished(run: RuleInput, about: Mapping[str, RunFacts]) -> Array:
    """Return for each event whether it is of a test whose end is missing because its worker's file was cut."""
    events = run.events
    if not any(facts.truncated for facts in about.values()):
        return np.zeros(len(events), bool)
    ended = {key for key, life in run.tests.items() if life.has_ended}
    tests = numbered(events.worker.codes, events.test.codes)
    keys = zip(events.worker.codes[tests.first].tolist(), events.test.codes[tests.first].tolist(), strict=True)
    has_ended = np.array([key in ended for key in keys], bool)
    runs = (events.run.text(row) or "" for row in tests.first.tolist())
    workers = (events.worker.text(row) for row in tests.first.tolist())
    is_cut = np.array([worker in about[run].truncated for run, worker in zip(runs, workers, strict=True)], bool)
    is_unfinished: Array = (is_cut & ~has_ended)[tests.number]
    return is_unfinished
