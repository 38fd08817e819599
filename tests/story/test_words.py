"""The words of a story: each kind of event, each end of a copy and each reason has its own, on every surface."""

from __future__ import annotations

import re

import pytest

from leveret.story.words import DETAILS, KINDS, REASONS, Names, Numbers, details, filled, told
from leveret.trace import events
from leveret.trace.events import Event
from leveret.trace.recorded_rows import raw_events

ROW = {
    "msg": 7,
    "conn": 1,
    "chan": 2,
    "vhost": "/",
    "queue": "orders",
    "exchange": "shop",
    "routing_key": "new",
    "consumer": "tag",
    "reason": "a reason",
    "count": 3,
    "attrs": {"client": "till", "on": "basic.ack", "fault": "delay()", "type": "topic", "call": "publish", "test": "t"},
}


def of_row(row: dict[str, object]) -> Event:
    """Return the event of a row of a file."""
    (raw,) = raw_events([row])
    return Event(raw)


def test_the_last_row_of_each_kind_of_event_always_applies() -> None:
    assert [kind for kind, rows in KINDS.items() if rows[-1].when] == []


def test_every_slot_is_a_field_of_its_kind() -> None:
    own = {"message", "who", "target", "connection", "kind", "queue"}
    slots = {
        (kind, slot) for kind, rows in KINDS.items() for row in rows for slot in re.findall(r"\{(\w+)\}", row.text)
    }

    assert [
        (kind, slot)
        for kind, slot in sorted(slots)
        if slot not in own
        and slot not in (*events.FIELDS[kind], *(("exchange",) if "message" in events.FIELDS[kind] else ()))
    ] == []


@pytest.mark.parametrize("kind", [events.REQUEUED, events.DROPPED, events.DEAD_LETTERED, events.PURGED])
def test_every_reason_has_words(kind: str) -> None:
    assert [reason for reason in events.TABLE[kind].reasons if reason not in REASONS[kind]] == []


@pytest.mark.parametrize(
    ("kind", "drawn", "line"),
    [
        ("published", "published it to 'shop' with key 'new'", "c1/ch2 published it to 'shop' with key 'new'"),
        ("delivered", "delivered it to c1/ch2", "delivered it from 'orders' to c1/ch2"),
        ("acked", "acked it", "c1/ch2 acked it of 'orders'"),
        ("expired", "it expired in 'orders'", "it expired in 'orders'"),
        ("conn_close", "c1 lost its connection: a reason", "c1 lost its connection: a reason"),
        ("fault", "fault delay() on basic.ack", "fault delay() on basic.ack (c1/ch2)"),
        ("of_a_newer_leveret", "of_a_newer_leveret it", "of_a_newer_leveret it"),
    ],
)
def test_a_drawing_leaves_out_what_its_lanes_show(kind: str, drawn: str, line: str) -> None:
    fact = of_row({**ROW, "kind": kind})

    assert (told(fact, Names(), is_drawn=True), told(fact, Names())) == (drawn, line)


def test_an_event_and_its_row_in_a_file_have_the_same_words() -> None:
    row = of_row({"kind": "cancel", "conn": 1, "chan": 2, "queue": "orders", "consumer": "tag", "attrs": {}})
    event = events.Event((events.CANCEL, 0, "/", 1, 2, "orders", "tag", None))

    assert told(event, Names()) == told(row, Names()) == "consumer 'tag' of 'orders' was cancelled"


def test_a_text_without_room_names_messages_by_their_numbers() -> None:
    assert told(of_row({**ROW, "kind": "published"}), Numbers()) == "c1/ch2 published #7 to 'shop' with key 'new'"


def test_a_bracket_with_an_empty_slot_is_left_out() -> None:
    assert filled("left[ by {who}] and <{who} >right", lambda slot: "", is_drawn=False) == "left and right"


def test_details_are_what_the_words_leave_out() -> None:
    row = {"kind": "acked", "tag": 3, "multiple": False, "redelivered": False, "attrs": {}}

    assert details(of_row(row)) == [["delivery tag", "3"], ["multiple", "no"]]
    assert details(of_row({**row, "kind": "published"})) == [["publish number", "3"]]
    assert "tag" in DETAILS
