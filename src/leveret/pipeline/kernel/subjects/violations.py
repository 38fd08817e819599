"""Violations: a row for each copy or message and each rule that it breaks, with a text for readers.

The rules do the work; this writes down what they found. It needs no sort. Each text is made by itself, because few
copies break a rule.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import NULL, Array, table
from leveret.pipeline.kernel.rules import RULES, Broken, Rule, Run


@dataclass(frozen=True)
class _Found:
    """The rows that break one rule, each once, with their texts and the events that these name."""

    rule: Rule
    rows: Array
    texts: list[str]
    seqs: list[list[int]]

    def kept(self, is_kept: Array) -> _Found:
        """Return some of the rows."""
        chosen = np.flatnonzero(is_kept).tolist()
        return _Found(
            self.rule, self.rows[is_kept], [self.texts[row] for row in chosen], [self.seqs[row] for row in chosen]
        )


def violations(run: Run, truncated: Collection[str]) -> pa.Table:
    """Return the table `violations`. `truncated` are the workers of which a part is missing."""
    unfinished = _Unfinished(run, truncated)
    parts = []
    for rule in RULES:
        found = _each_once(rule, rule.find(run))
        event = _events_of(run, found)
        if rule.of_end:
            is_kept = ~unfinished.holds(event)
            found, event = found.kept(is_kept), event[is_kept]
        if len(event):
            parts.append(_part(run, found, event))
    if not parts:
        return schema.VIOLATIONS.empty_table()
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _each_once(rule: Rule, broken: Broken) -> _Found:
    """Make the texts. A row that breaks the rule several times gets the first of its texts by the alphabet."""
    texts: dict[int, tuple[str, list[int]]] = {}
    is_event = [name.endswith("_seq") for name in broken.values]
    columns = [values.tolist() for values in broken.values.values()]
    for row, *values in zip(broken.rows.tolist(), *columns, strict=True):
        shown = ["none" if value == NULL else value for value in values]
        text = rule.text.format_map(dict(zip(broken.values, shown, strict=True)))
        seqs = [value for value, is_named in zip(values, is_event, strict=True) if is_named and value != NULL]
        texts[row] = min((text, seqs), texts.get(row, (text, seqs)))
    told, named = [text for text, _ in texts.values()], [seqs for _, seqs in texts.values()]
    return _Found(rule, np.array(list(texts), np.int64), told, named)


def _events_of(run: Run, found: _Found) -> Array:
    """Return an event of each row, which has the worker, the test, the virtual host and the queue."""
    if found.rule.about_messages:
        return run.messages.event[found.rows]
    return run.copies.place_event[run.copies.place[found.rows]]


def _part(run: Run, found: _Found, event: Array) -> pa.Table:
    events, count = run.events, len(event)
    about_copy: dict[str, object] = {
        "queue": pa.nulls(count, schema.TEXT),
        "msg": events.msg[event],
        "copy": pa.nulls(count, pa.int64()),
    }
    if not found.rule.about_messages:
        copies = run.copies
        about_copy = {
            "queue": events.queue.at(event),
            "msg": copies.msg[found.rows],
            "copy": copies.copy[found.rows],
        }
    return table(
        schema.VIOLATIONS,
        {
            **events.file_of(event),
            **events.names_of(event, "test", "vhost"),
            **about_copy,
            "rule": [found.rule.name] * count,
            "text": found.texts,
            "seqs": found.seqs,
        },
    )


class _Unfinished:
    """The tests whose end is missing because their worker's file was cut."""

    def __init__(self, run: Run, truncated: Collection[str]) -> None:
        self._events = run.events
        self._is_cut = run.events.worker.is_in(truncated) if truncated else None
        ended = [key for key, life in run.tests.items() if life.has_ended]
        self._ended = self._key(*np.array(ended, np.int64).reshape(-1, 2).T)

    def holds(self, event: Array) -> Array:
        """Return whether each event belongs to such a test."""
        if self._is_cut is None:
            return np.zeros(len(event), bool)
        key = self._key(self._events.worker.codes[event], self._events.test.codes[event])
        return self._is_cut[event] & ~np.isin(key, self._ended)

    def _key(self, worker: Array, test: Array) -> Array:
        return worker.astype(np.int64) * (len(self._events.test.distinct) + 1) + test + 1
