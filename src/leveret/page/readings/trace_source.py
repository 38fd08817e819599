"""The reading of a trace file: the rows of one of its tests, by broker, with the numbers that each broker gave.

A row has the columns of a file, but its `attrs` are a dictionary and no text, and `attrs["body"]` holds the bytes of a
body. A file holds many tests and brokers. Rows about messages have their broker in the message's number; the others
name it. Rows of a broker's earlier tests are read for what they explain.
"""

from __future__ import annotations

import json
from collections import Counter
from os import PathLike
from typing import Any, Final, NamedTuple, cast

from leveret.errors import UnreadableTraceError, did_you_mean
from leveret.page.readings.firehose import Completion, PageRow
from leveret.page.readings.reading import PageFault, Reading
from leveret.page.story import Test
from leveret.story.asked import Asked
from leveret.story.diagnosis import diagnosis
from leveret.story.timeline import Timeline
from leveret.trace import events
from leveret.trace.jsonl import TraceReader
from leveret.trace.recorded_rows import raw_events
from leveret.trace.redaction import body_octets
from leveret.trace.rows import NODE_SPAN
from leveret.trace.schema import SHAPE

_NUMBERS: Final = ("msg", "copy", "src_copy")
_LISTED: Final = 40
_FAILED: Final = ("failed", "error")
# A page of a file has at most this many events: the first, with the set-up, and the latest.
_EVENTS_MAX: Final = 100_000
_FIRST_EVENTS: Final = 500


class Recorded(NamedTuple):
    """One test of a trace file: what its brokers did, the test itself, and what recorded it."""

    readings: list[Reading]
    test: Test
    source: str


def read_test(path: str | PathLike[str], name: str | None) -> Recorded:
    """Return one test of a trace file. Without a name, the file must have only one.

    Raises UnreadableTraceError if the file is no trace or has no such test, and OSError if it cannot be read.
    """
    reader = TraceReader(path)
    is_rabbitmq = str(reader.header.get("broker", "")).startswith("rabbitmq")
    chosen = _chosen(reader.path, _outcomes(reader), name)
    rows, test = _rows_of(TraceReader(path), chosen)
    cut_count = max(0, len(rows) - _EVENTS_MAX)
    del rows[_FIRST_EVENTS : _FIRST_EVENTS + cut_count]
    groups = _by_broker(rows)
    before = {} if is_rabbitmq else _before(TraceReader(path), rows, groups)
    readings = [
        _reading(reader.header, before.get(ordinal, []), group, is_rabbitmq=is_rabbitmq)
        for ordinal, group in sorted(groups.items())
    ]
    # A recording of RabbitMQ has no acks, so it does not show what is held.
    if test.outcome in _FAILED and not is_rabbitmq:
        for reading in readings:
            found = diagnosis(reading.timeline, Asked(test.messages, test.queues), began=reading.began)
            reading.causes, reading.noticed = found.causes, found.noticed
    if not readings:
        readings = [_reading(reader.header, [], [], is_rabbitmq=is_rabbitmq)]
    readings[0].cut_count = cut_count
    return Recorded(readings, test, "RabbitMQ" if is_rabbitmq else "trace file")


def _outcomes(reader: TraceReader) -> dict[str, str]:
    """Return the outcome of each test in a file, in order; an empty text for a test that has not ended."""
    outcomes: dict[str, str] = {}
    for row in reader:
        test = cast("str | None", row.get("test"))
        if test is not None and row.get("kind") == events.TEST_END:
            outcomes[test] = str(_attrs(row).get("outcome", ""))
        elif test is not None:
            outcomes.setdefault(test, "")
    return outcomes


def _chosen(path: str, outcomes: dict[str, str], name: str | None) -> str | None:
    if name is None:
        if len(outcomes) <= 1:
            return next(iter(outcomes), None)
        raise UnreadableTraceError(f"--test is missing: {path} has {len(outcomes)} tests\n{_list(outcomes)}")
    if name in outcomes:
        return name
    ending = [test for test in outcomes if test.endswith(f"::{name}")]
    containing = ending or [test for test in outcomes if name in test]
    if len(containing) == 1:
        return containing[0]
    if containing:
        some = {test: outcomes[test] for test in containing}
        raise UnreadableTraceError(f"--test {name!r} names {len(some)} tests of {path}\n{_list(some)}")
    hint = did_you_mean(name, outcomes)
    raise UnreadableTraceError(f"--test {name!r} is not in {path}{hint}; its tests:\n{_list(outcomes)}")


def _list(outcomes: dict[str, str]) -> str:
    """Return tests as lines with their outcomes, those that failed first."""
    ranked = sorted(outcomes, key=lambda test: outcomes[test] not in _FAILED)
    lines = [f"  {outcomes[test] or 'unfinished'}: {test}" for test in ranked[:_LISTED]]
    more = [f"  ... and {len(ranked) - _LISTED} more"] if len(ranked) > _LISTED else []
    return "\n".join(lines + more) or "  none"


def _attrs(row: dict[str, object]) -> dict[str, Any]:
    text = row.get("attrs")
    try:
        attrs = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        attrs = {}
    return attrs if isinstance(attrs, dict) else {}


def _page_row(row: dict[str, object]) -> PageRow:
    attrs = _attrs(row)
    body = attrs.get("body")
    if isinstance(body, str):
        attrs["body"] = body_octets(body)
    return {"kind": "", **row, "attrs": attrs}


def _rows_of(reader: TraceReader, name: str | None) -> tuple[list[PageRow], Test]:
    """Return the rows of the last attempt of a test, and how it ended."""
    rows: list[PageRow] = []
    test = Test(name or "")
    for raw in reader:
        if name is not None and raw.get("test") != name:
            continue
        kind = raw.get("kind")
        if kind == events.TEST_START:
            # Only the last attempt counts. Without a name, all of the file does.
            rows, test = ([], Test(name)) if name is not None else (rows, test)
        elif kind == events.TEST_END:
            attrs = _attrs(raw)
            duration = attrs.get("duration")
            test.outcome, test.phase, test.error = str(attrs.get("outcome", "")), attrs.get("phase"), attrs.get("error")
            about = attrs.get("failure") or {}
            test.messages, test.queues = about.get("messages", ()), about.get("queues", ())
            test.seconds = duration if isinstance(duration, int | float) else None
        elif kind != SHAPE:
            rows.append(_page_row(raw))
    return rows, test


def _by_broker(rows: list[PageRow]) -> dict[int, list[PageRow]]:
    """Return rows by their broker, by its ordinal in the file."""
    groups: dict[int, list[PageRow]] = {}
    for row in rows:
        is_about_message = row.get("msg") is not None
        ordinal = int(row["msg"]) // NODE_SPAN if is_about_message else row["attrs"].get("broker")
        groups.setdefault(ordinal if isinstance(ordinal, int) else 0, []).append(row)
    return groups


def _before(reader: TraceReader, rows: list[PageRow], groups: dict[int, list[PageRow]]) -> dict[int, list[PageRow]]:
    """Return the earlier rows of the same brokers that explain a test: declarations, clients, and its old messages."""
    if not rows:
        return {}
    published = {row.get("msg") for row in rows if row["kind"] == events.PUBLISHED}
    missing = {row["msg"] for row in rows if row.get("msg") is not None} - published
    first = rows[0].get("seq", 0)
    earlier = []
    for raw in reader:
        if raw.get("seq", 0) >= first:
            break
        kind = raw.get("kind")
        if kind in events.EXPLAINING or (kind == events.PUBLISHED and raw.get("msg") in missing):
            earlier.append(_page_row(raw))
    return {ordinal: group for ordinal, group in _by_broker(earlier).items() if ordinal in groups}


def _reading(header: dict[str, object], before: list[PageRow], rows: list[PageRow], *, is_rabbitmq: bool) -> Reading:
    connections: dict[object, int] = {}
    for row in (*before, *rows):
        _renumber(row, connections)
    if is_rabbitmq:
        rows = list(Completion().complete(rows))
    broker = str(header.get("broker", "broker"))
    seed = header.get("seed")
    rows = [*before, *rows]
    timeline = Timeline(raw_events(rows))
    return Reading(
        timeline,
        lambda fact: (rows[fact.place].get("ts"), rows[fact.place].get("wall")),
        len(before),
        not is_rabbitmq,
        title=broker,
        rabbitmq=str(header.get("profile") or (broker.partition(" ")[2] if is_rabbitmq else "")),
        seed=seed if isinstance(seed, int) and not is_rabbitmq else None,
        clock="held" if header.get("clock") == "virtual" else "real",
        faults=_faults(timeline),
    )


def _renumber(row: PageRow, connections: dict[object, int]) -> None:
    """Give a row the numbers that its broker counts: from 1, in the order in which they appear."""
    for name in _NUMBERS:
        if row.get(name) is not None:
            row[name] %= NODE_SPAN
    conn = row.get("conn")
    if conn is not None:
        row["conn"] = connections.setdefault(conn, len(connections) + 1)


def _faults(timeline: Timeline) -> list[PageFault]:
    """Return the faults that fired. Which others were planned is not recorded."""
    fired = Counter((str(fact.get("fault")), str(fact.get("on"))) for fact in timeline.faults)
    return [PageFault(f"{name} on {on}", on, name, count) for (name, on), count in fired.items()]
