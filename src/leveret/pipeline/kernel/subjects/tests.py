"""Tests: how each test ended, how often it was tried, and how many messages it published.

Tests start and end far more rarely than messages move, so this goes through their events one by one. It needs one count
of messages by worker and test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.columns import table
from leveret.pipeline.kernel.control import ControlEvents, number_at, text_at
from leveret.pipeline.kernel.groups import numbered
from leveret.pipeline.kernel.subjects.messages import Messages
from leveret.trace.events import TEST_END, TEST_START

FAILURES: Final = ("failed", "error")
# What the end of an attempt that failed says about it.
_OF_FAILURE: Final = ("error", "page", "page_hash")
# The codes of a worker and of a test.
TestKey = tuple[int, int]


@dataclass
class TestLife:
    """The attempts of a test on a worker: the positions of their starts, and what its last event says."""

    # The position of the test's first event here.
    event: int
    starts: list[int] = field(default_factory=list)
    failures: int = 0
    has_ended: bool = False
    # Those of the last end; empty if another start followed.
    attributes: dict[str, Any] = field(default_factory=dict)
    # Those of the last end that says the attempt failed.
    of_failure: dict[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str | None:
        """How the last attempt ended, or None if it has no end."""
        return text_at(self.attributes, "outcome")

    @property
    def duration(self) -> float | None:
        """The seconds of the last attempt, or None."""
        return number_at(self.attributes, "duration")


def tests_of(control: ControlEvents) -> dict[TestKey, TestLife]:
    """Return the tests that start or end, in the order of time. Those without a name have the test's code -1."""
    found: dict[TestKey, TestLife] = {}
    events, chosen = control.events, control.of_kind(TEST_START, TEST_END)
    workers, tests = events.worker.codes[chosen.event].tolist(), events.test.codes[chosen.event].tolist()
    is_end = events.kind.at(chosen.event).is_in([TEST_END]).tolist()
    keys = zip(workers, tests, strict=True)
    for event, key, ends, attributes in zip(chosen.event.tolist(), keys, is_end, chosen.parsed(), strict=True):
        life = found.setdefault(key, TestLife(event))
        life.has_ended, life.attributes = ends, attributes if ends else {}
        if not ends:
            life.starts.append(event)
        elif attributes.get("outcome") in FAILURES:
            life.failures += 1
            life.of_failure = attributes
    return found


def tests(control: ControlEvents, lives: dict[TestKey, TestLife], messages: Messages) -> pa.Table:
    """Return the table `tests`."""
    events = control.events
    named = {key: life for key, life in lives.items() if key[1] >= 0}
    rows = np.array([life.event for life in named.values()], np.int64)
    published = _published(messages)
    return table(
        schema.TESTS,
        {
            **events.file_of(rows),
            **events.names_of(rows, "test"),
            "outcome": [life.outcome for life in named.values()],
            "duration": [life.duration for life in named.values()],
            "retries": [max(len(life.starts) - 1, 0) for life in named.values()],
            "published": [published.get(key, 0) for key in named],
            "failures": [life.failures for life in named.values()],
            **{name: [text_at(life.of_failure, name) for life in named.values()] for name in _OF_FAILURE},
        },
    )


def _published(messages: Messages) -> dict[TestKey, int]:
    """Count the messages by worker and test."""
    workers, tests = messages.events.worker.codes[messages.event], messages.events.test.codes[messages.event]
    groups = numbered(workers, tests)
    keys = zip(workers[groups.first].tolist(), tests[groups.first].tolist(), strict=True)
    return dict(zip(keys, groups.counts().tolist(), strict=True))
