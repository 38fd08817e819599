"""Lines of a trace file: for every kind, the template writes the values of the row, and no name breaks a line."""

import itertools
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.core.model.message import Message
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table
from leveret.trace import events
from leveret.trace.events import FIELDS, KINDS
from leveret.trace.lines import Lines
from leveret.trace.redaction import Redaction
from leveret.trace.rows import FileNumbering, Rows

WALL = 1_800_000_000_000_000
# Names hold bytes that are not UTF-8 as surrogates.
NAMES = st.sampled_from(["q", "orders", 'a"b\\c', "\udcff\n", " ", "", "späte", "\U0001f407"]) | st.text(max_size=3)
NUMBERS = st.integers(0, 2**31 - 1)
HEADERS = st.dictionaries(
    st.sampled_from(["n", "x-token", "Authorization", "späte", "nested", "x-stream-offset"]),
    st.integers(-(2**31), 2**31 - 1) | st.booleans() | NAMES | st.binary(max_size=4) | st.none(),
    max_size=3,
)


@st.composite
def messages(draw):
    named = {
        name: draw(st.none() | NAMES)
        for name in ("content_type", "message_id", "correlation_id", "reply_to", "type", "app_id")
    }
    headers = draw(st.none() | HEADERS)
    properties = Properties(
        **named,
        headers=None if headers is None else Table.from_python(headers),
        delivery_mode=draw(st.sampled_from([None, 1, 2])),
        timestamp=draw(st.none() | st.integers(0, 2**63)),
    )
    key = draw(NAMES)
    keys = (key, *draw(st.lists(NAMES, max_size=1)))
    return Message(draw(NUMBERS), draw(NAMES), key, properties, b"", draw(st.binary(max_size=20)), keys)


def values_of(name):
    """Return a strategy for the values of a field."""
    match name:
        case "message":
            return messages()
        case "multiple" | "redelivered" | "no_ack" | "exclusive" | "is_global" | "is_global_asked":
            return st.booleans()
        case "conn" | "chan" | "src_copy" | "expires" | "up_to_tag":
            return st.none() | NUMBERS
        case "tag":
            return st.none() | st.integers(1, 2**63 - 1)
        case "copy" | "count" | "prefetch_count" | "code":
            return NUMBERS
        case "duration":
            return st.floats(0, 100)
        case "arguments":
            return HEADERS.map(Table.from_python)
        case "destination_kind":
            return st.sampled_from(["queue", "exchange"])
    return NAMES


def optional(kind, name):
    """Return a strategy for the values of a field, with None where this kind of event may lack it."""
    if (kind, name) in {(events.DROPPED, "copy"), (events.DROPPED, "queue"), (events.ACKED, "reason")}:
        return st.none() | values_of(name)
    if name == "tag" and kind != events.PUBLISHED:
        return st.integers(1, 2**63 - 1)
    return values_of(name)


RAW_EVENTS = st.one_of(
    [
        st.tuples(st.just(kind), NUMBERS, *(optional(kind, name) for name in FIELDS[kind]))
        for kind in KINDS
        if kind not in (events.TEST_START, events.TEST_END)
    ]
)


def numbering(ordinal=0):
    return FileNumbering(ordinal, itertools.count(1).__next__)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(RAW_EVENTS, max_size=5), st.booleans(), st.integers(0, 3), st.none() | NAMES)
def test_every_event_comes_back_from_its_line_as_its_row(raw_events, keeps_bodies, ordinal, test):
    lines = Lines(numbering(ordinal), Redaction(), keeps_bodies=keeps_bodies)
    lines.test = test
    rows = Rows(numbering(ordinal), Redaction(), keeps_bodies=keeps_bodies)

    # Write it twice: the second time the writer already knows the repeated values.
    for start in (1, 101):
        written = lines.write(raw_events, WALL, itertools.count(start).__next__)

        expected = [rows.row(raw, seq, WALL, test) for seq, raw in enumerate(raw_events, start=start)]
        assert [json.loads(line) for line in written] == expected
        assert all(line.endswith("}\n") and line.count("\n") == 1 and line.isascii() for line in written)


def test_events_name_the_test_they_belong_to():
    lines = Lines(numbering(), Redaction(), keeps_bodies=False)
    opened = (events.CHAN_OPEN, 1, "/", 1, 1)

    written = lines.write(
        [opened, (events.TEST_START, 1, "test_a"), opened, (events.TEST_END, 1, "test_a", "passed", 0.1), opened],
        WALL,
        itertools.count(1).__next__,
    )

    assert [json.loads(line).get("test") for line in written] == [None, "test_a", "test_a"]


def test_a_broker_that_begins_anew_has_new_numbers():
    connections = itertools.count(1).__next__
    lines = Lines(FileNumbering(0, connections), Redaction(), keeps_bodies=False)
    message = Message(7, "", "q", Properties(), b"", b"", ("q",))
    published = (events.PUBLISHED, 1, "/", 1, 1, message, None)

    (before,) = lines.write([published], WALL, itertools.count(1).__next__)
    lines.begin_anew(FileNumbering(1, connections))
    (after,) = lines.write([published], WALL, itertools.count(2).__next__)

    assert (json.loads(before)["msg"], json.loads(before)["conn"]) == (7, 1)
    assert (json.loads(after)["msg"], json.loads(after)["conn"]) == (1_000_000_007, 2)


def test_names_made_up_without_end_are_not_kept():
    lines = Lines(numbering(), Redaction(), keeps_bodies=False)
    message = Message(7, "", "q", Properties(), b"", b"", ("q",))

    for start in range(0, 50_000, 1000):
        raw_events = [(events.ENQUEUED, 1, "/", f"q{n}", message, n, None, None) for n in range(start, start + 1000)]
        lines.write(raw_events, WALL, itertools.count(1).__next__)

    assert all(len(cache) < 10_000 for cache in lines._caches.values())
