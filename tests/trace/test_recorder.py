"""The recorder: the events that it keeps, and how it notices dropped events."""

import gc
import threading

import pytest

from leveret import Broker
from leveret.observe.recorder import Recorder
from leveret.trace import events
from leveret.trace.ring import EventRing


def closed(number):
    return (events.CONN_CLOSE, number, "/", number, None, None, None)


def test_recorded_events_come_back_in_order():
    recorder = EventRing()

    recorder.tap(closed(1))
    recorder.tap(closed(2))

    assert [event.conn for event in Recorder(recorder).events()] == [1, 2]
    assert len(recorder) == 2


def test_a_new_recorder_is_empty_and_complete():
    recorder = EventRing()

    assert Recorder(recorder).events() == []
    assert not recorder.has_dropped


def test_a_full_recorder_is_still_complete():
    recorder = EventRing(size=3)

    for number in range(3):
        recorder.tap(closed(number))

    assert not recorder.has_dropped
    assert len(recorder) == 3


def test_one_event_too_many_drops_the_oldest_and_is_noticed():
    recorder = EventRing(size=3)

    for number in range(4):
        recorder.tap(closed(number))

    assert recorder.has_dropped
    assert [event.conn for event in Recorder(recorder).events()] == [1, 2, 3]
    assert len(recorder) == 3


def test_clearing_makes_it_empty_and_complete():
    recorder = EventRing(size=1)
    recorder.tap(closed(1))
    recorder.tap(closed(2))

    recorder.clear()

    assert Recorder(recorder).events() == []
    assert not recorder.has_dropped


def test_the_tap_is_the_append_itself():
    assert type(EventRing().tap) is type([].append)


def test_a_recorder_that_is_off_has_no_tap():
    recorder = EventRing(level="off")

    assert recorder.tap is None
    assert not recorder.is_on


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="record='rings' is unknown; expected 'off' or 'recent'"):
        EventRing(level="rings")


def test_the_error_for_the_level_full_names_the_replacement():
    with pytest.raises(ValueError, match="to keep all events, use trace_dir=DIR or --leveret-trace-dir=DIR"):
        EventRing(level="full")


def test_a_query_names_kinds_fields_and_a_predicate():
    recorder = EventRing()
    recorder.tap((events.CHAN_OPEN, 1, "/", 1, 1))
    recorder.tap((events.CHAN_OPEN, 2, "/", 1, 2))
    recorder.tap((events.CHAN_OPEN, 3, "/", 2, 1))
    recorder.tap(closed(1))

    found = Recorder(recorder).query(events.CHAN_OPEN, conn=1, where=lambda event: event.at > 1)

    assert [event.at for event in found] == [2]


def test_a_query_without_kinds_looks_at_all_of_them():
    recorder = EventRing()
    recorder.tap((events.CHAN_OPEN, 1, "/", 1, 1))
    recorder.tap(closed(1))

    assert [event.kind for event in Recorder(recorder).query(conn=1)] == [events.CHAN_OPEN, events.CONN_CLOSE]


def test_a_query_for_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown event 'conn_closed'; did you mean 'conn_close'"):
        Recorder(EventRing()).query("conn_closed")


def test_a_query_for_a_field_the_kind_does_not_have_is_refused():
    with pytest.raises(TypeError, match="unknown field 'queue'; expected one of kind, at, vhost"):
        Recorder(EventRing()).query(events.CONN_CLOSE, queue="q")


def test_events_after_the_last_one_seen_are_found():
    recorder = EventRing()
    recorder.tap(closed(1))
    seen_count = recorder.recorded_count
    recorder.tap(closed(2))
    recorder.tap(closed(3))

    assert recorder.raw_after(seen_count) == [closed(2), closed(3)]
    assert recorder.raw_after(0) == [closed(1), closed(2), closed(3)]


def test_events_after_the_last_one_seen_are_found_though_all_were_forgotten_meanwhile():
    recorder = EventRing()
    recorder.tap(closed(1))
    seen_count = recorder.recorded_count
    recorder.clear()
    recorder.tap(closed(2))

    assert recorder.raw_after(seen_count) == [closed(2)]


def test_all_remaining_events_come_after_a_dropped_one():
    recorder = EventRing(size=2)
    for number in range(1, 5):
        recorder.tap(closed(number))

    assert recorder.raw_after(1) == [closed(3), closed(4)]


def test_the_tail_is_the_newest_events_oldest_first():
    recorder = EventRing()
    for number in range(5):
        recorder.tap(closed(number))

    assert [event.conn for event in Recorder(recorder).tail(2)] == [3, 4]
    assert Recorder(recorder).tail(0) == []


class Packable:
    """A message that can be stored as plain data."""

    def __init__(self, number):
        self.id = number

    def packed(self):
        return (self.id,)


MANY = 20_000


def returned(number):
    return (events.RETURNED, number, "/", 1, 1, Packable(number), "NO_ROUTE")


def packing(size=100_000):
    return EventRing(size=size, pack=Packable.packed, unpack=Packable)


def tap_in_turns(recorder, numbers):
    for number in numbers:
        recorder.tap(returned(number))
        recorder.turned(None)


def test_older_events_are_kept_as_plain_data_and_come_back_with_messages():
    recorder = packing()

    tap_in_turns(recorder, range(MANY))

    assert [event.message.id for event in Recorder(recorder).events()] == list(range(MANY))
    gc.collect()
    gc.collect()
    untracked = [raw for raw in recorder._kept if not gc.is_tracked(raw)]
    assert len(untracked) > MANY / 2


def test_events_of_one_message_share_it_when_they_come_back():
    recorder = packing()
    message = Packable(7)
    for _ in range(2):
        recorder.tap((events.RETURNED, 1, "/", 1, 1, message, "NO_ROUTE"))
    tap_in_turns(recorder, range(MANY))

    first, second = Recorder(recorder).query(events.RETURNED, where=lambda event: event.message.id == 7)[:2]

    assert first.message is second.message


@pytest.mark.parametrize("step", [1, 37, 8191, 8192, 8193, 9000])
def test_a_reader_sees_every_event_once_however_often_it_looks(step):
    recorder, seen = packing(), []

    for start in range(0, MANY, step):
        tap_in_turns(recorder, range(start, min(start + step, MANY)))
        seen += [raw[1] for raw in recorder.raw_after(len(seen))]

    assert seen == list(range(MANY))


def test_no_turn_turns_thousands_of_events_into_plain_data():
    packed = []
    recorder = EventRing(pack=lambda message: packed.append(message) or (message,), unpack=lambda message: message)
    longest = 0

    for number in range(MANY):
        recorder.tap((events.PUBLISHED, number, "/", 1, 1, object(), None))
        recorder.turned(None)
        longest = max(longest, len(packed))
        packed.clear()

    assert 0 < longest <= 1100


@pytest.mark.parametrize("size", [1, 100, 8192, 10_000])
def test_more_than_it_holds_is_dropped_also_when_kept_as_plain_data(size):
    recorder = packing(size)

    tap_in_turns(recorder, range(MANY))

    assert recorder.has_dropped
    assert len(recorder) == size
    assert [event.at for event in Recorder(recorder).events()] == list(range(MANY - size, MANY))


def test_a_ring_filled_exactly_has_dropped_no_event():
    recorder = packing(MANY)

    tap_in_turns(recorder, range(MANY))

    assert not recorder.has_dropped
    assert len(Recorder(recorder).events()) == MANY


READERS = {
    "len": len,
    "list": lambda recorder: list(Recorder(recorder)),
    "has_dropped": lambda recorder: recorder.has_dropped,
    "path": lambda recorder: recorder.path,
    "query": lambda recorder: Recorder(recorder).query("published"),
    "tail": lambda recorder: Recorder(recorder).tail(1),
    "raw_after": lambda recorder: recorder.raw_after(0),
    "clear": lambda recorder: recorder.clear(),
}


class Lock:
    """A lock that says whether it is held."""

    depth = 0

    def __enter__(self):
        self.depth += 1

    def __exit__(self, *error):
        self.depth -= 1


class WriterUnderLock:
    """A writer that only works while the lock is held."""

    path = "trace"

    def __init__(self, lock):
        self.lock, self.pending, self.hand_on, self.call_count = lock, [], None, 0
        self.tap = self.pending.append

    def write(self):
        assert self.lock.depth
        self.call_count += 1
        self.hand_on(self.pending)
        self.pending.clear()

    def open(self):
        self.write()
        return self


@pytest.mark.parametrize("name", READERS)
def test_a_reader_holds_the_lock_while_the_writer_writes(name):
    lock = Lock()
    recorder = EventRing(writer=WriterUnderLock(lock), lock=lock)
    recorder.tap(closed(1))

    READERS[name](recorder)

    assert recorder.writer.call_count
    assert not lock.depth


def test_the_lock_of_a_broker_s_events_is_the_broker_s(tmp_path):
    with Broker(trace_dir=tmp_path) as broker:
        reading = threading.Thread(target=lambda: len(broker._engine.recorder))
        with broker._engine.lock:
            reading.start()
            broker.publish("", "q", b"1")
            waited = reading.is_alive()
        reading.join()
        broker.allow("unroutable")

    assert waited


def test_a_test_sees_of_its_recorder_what_it_can_use():
    with Broker() as broker:
        shown = {name for name in dir(broker.events) if not name.startswith("_")}

    assert shown == {"clear", "events", "has_dropped", "is_on", "level", "path", "query", "size", "tail"}
