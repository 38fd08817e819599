"""The recorder: what it keeps, and knowing when that is not all."""

import pytest

from leveret.trace import events
from leveret.trace.recorder import Recorder


def closed(number):
    return (events.CONN_CLOSE, number, "/", number, None, None)


def test_what_was_tapped_comes_back_in_order():
    recorder = Recorder()

    recorder.tap(closed(1))
    recorder.tap(closed(2))

    assert [event.conn for event in recorder.events()] == [1, 2]
    assert len(recorder) == 2


def test_a_new_recorder_is_empty_and_complete():
    recorder = Recorder()

    assert recorder.events() == []
    assert not recorder.has_dropped


def test_a_full_recorder_is_still_complete():
    recorder = Recorder(size=3)

    for number in range(3):
        recorder.tap(closed(number))

    assert not recorder.has_dropped
    assert len(recorder) == 3


def test_one_event_more_than_it_holds_drops_the_oldest_and_is_known():
    recorder = Recorder(size=3)

    for number in range(4):
        recorder.tap(closed(number))

    assert recorder.has_dropped
    assert [event.conn for event in recorder.events()] == [1, 2, 3]
    assert len(recorder) == 3


def test_clearing_makes_it_empty_and_complete():
    recorder = Recorder(size=1)
    recorder.tap(closed(1))
    recorder.tap(closed(2))

    recorder.clear()

    assert recorder.events() == []
    assert not recorder.has_dropped


def test_the_tap_is_the_append_itself():
    assert type(Recorder().tap) is type([].append)


def test_a_recorder_that_is_off_has_no_tap():
    recorder = Recorder(level="off")

    assert recorder.tap is None
    assert not recorder.is_on


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="trace level 'rings' is none of off, ring"):
        Recorder(level="rings")


def test_a_query_names_kinds_fields_and_a_predicate():
    recorder = Recorder()
    recorder.tap((events.CHAN_OPEN, 1, "/", 1, 1))
    recorder.tap((events.CHAN_OPEN, 2, "/", 1, 2))
    recorder.tap((events.CHAN_OPEN, 3, "/", 2, 1))
    recorder.tap(closed(1))

    found = recorder.query(events.CHAN_OPEN, conn=1, where=lambda event: event.at > 1)

    assert [event.at for event in found] == [2]


def test_a_query_without_kinds_looks_at_all_of_them():
    recorder = Recorder()
    recorder.tap((events.CHAN_OPEN, 1, "/", 1, 1))
    recorder.tap(closed(1))

    assert [event.kind for event in recorder.query(conn=1)] == [events.CHAN_OPEN, events.CONN_CLOSE]


def test_a_query_for_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="there is no event kind 'conn_closed'"):
        Recorder().query("conn_closed")


def test_a_query_for_a_field_the_kind_does_not_have_is_refused():
    with pytest.raises(TypeError, match="has a field 'queue'"):
        Recorder().query(events.CONN_CLOSE, queue="q")


def test_what_came_after_the_last_event_seen_is_found():
    recorder = Recorder()
    seen = closed(1)
    recorder.tap(seen)
    recorder.tap(closed(2))
    recorder.tap(closed(3))

    assert recorder.raw_after(seen) == [closed(2), closed(3)]
    assert recorder.raw_after(None) == [closed(1), closed(2), closed(3)]


def test_all_that_is_left_came_after_an_event_that_is_gone():
    recorder = Recorder(size=2)
    seen = closed(1)
    recorder.tap(seen)
    recorder.tap(closed(2))
    recorder.tap(closed(3))

    assert recorder.raw_after(seen) == [closed(2), closed(3)]


def test_the_tail_is_the_newest_events_oldest_first():
    recorder = Recorder()
    for number in range(5):
        recorder.tap(closed(number))

    assert [event.conn for event in recorder.tail(2)] == [3, 4]
    assert recorder.tail(0) == []
