"""The last events as text."""

from __future__ import annotations

from leveret.observe.report import tail_lines
from leveret.trace import events

AT = 1_700_000_000_000_000


def test_an_event_takes_one_line():
    raw = (events.CHAN_OPEN, AT, "/", 3, 1)

    assert tail_lines([raw], 20) == ["22:13:20.000000 a client (connection 3, channel 1): chan_open"]


def test_long_arguments_are_wrapped():
    arguments = {f"x-argument-{number}": "a value of some length" for number in range(8)}
    raw = (events.QUEUE_DECLARE, AT, "/", 3, 1, "orders", arguments)

    first, *more = tail_lines([raw], 20)

    assert first.startswith("22:13:20.000000 a client (connection 3, channel 1): queue_declare queue='orders'")
    assert all(line.startswith("    ") and len(line) <= 160 for line in more)
    assert "'x-argument-7': 'a value of some length'" in more[-1]


def test_very_long_arguments_are_cut():
    raw = (events.QUEUE_DECLARE, AT, "/", 3, 1, "orders", {"x-argument": "word " * 1000})

    lines = tail_lines([raw], 20)

    assert len(lines) == 9
    assert lines[-1] == "    ..."
