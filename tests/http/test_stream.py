"""The pump that feeds streams of events: who gets what, and that it works only while a stream is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Queue

import pytest

from leveret import Broker
from leveret.http.stream import EventPump
from leveret.server.rendezvous import Turns
from leveret.trace.events import PUBLISHED, RawEvent


class Listener:
    """A subscriber that keeps the bodies of the messages that were published."""

    def __init__(self, *, is_full: bool = False) -> None:
        self.bodies: Queue[bytes] = Queue()
        self.is_full = is_full
        self.most = 0

    def feed(self, raw_events: list[RawEvent], first: int) -> None:
        self.most = max(self.most, len(raw_events))
        for raw in raw_events:
            if raw[0] == PUBLISHED:
                self.bodies.put(raw[5].body)

    def end(self) -> None:
        self.bodies.put(b"the end")

    def next(self) -> bytes:
        return self.bodies.get(timeout=60)


@pytest.fixture
def leveret() -> Iterator[Broker]:
    with Broker(checks="all=off") as broker:
        yield broker


def test_every_listener_gets_every_event_once_from_when_it_came(leveret: Broker) -> None:
    pump, first, second = EventPump(leveret._engine), Listener(), Listener()
    leveret.publish(body="0")
    pump.subscribe(first)
    leveret.publish(body="1")
    pump.subscribe(second)
    leveret.publish(body="2")

    assert [first.next(), first.next(), second.next()] == [b"1", b"2", b"2"]


def test_a_listener_may_ask_for_what_was_recorded_before(leveret: Broker) -> None:
    pump, listener = EventPump(leveret._engine), Listener()
    leveret.publish(body="0")

    pump.subscribe(listener, from_start=True)
    leveret.publish(body="1")

    assert [listener.next(), listener.next()] == [b"0", b"1"]


def test_a_long_past_comes_in_slices_and_holds_up_no_other_listener(leveret: Broker) -> None:
    pump, late, punctual = EventPump(leveret._engine), Listener(is_full=True), Listener()
    for number in range(1000):
        leveret.publish(body=str(number))

    pump.subscribe(late, from_start=True)
    pump.subscribe(punctual)
    leveret.publish(body="1000")

    assert punctual.next() == b"1000"
    assert late.bodies.empty()
    late.is_full = False
    assert [late.next() for _ in range(1001)] == [str(number).encode() for number in range(1001)]
    assert late.most < 1000


def test_a_listener_that_left_gets_no_more_and_may_come_back(leveret: Broker) -> None:
    pump, listener = EventPump(leveret._engine), Listener()
    pump.subscribe(listener)
    pump.unsubscribe(listener)
    leveret.publish(body="0")

    pump.subscribe(listener)
    leveret.publish(body="1")

    assert listener.next() == b"1"


def test_events_go_on_after_a_reset_of_the_broker(leveret: Broker) -> None:
    pump, listener = EventPump(leveret._engine), Listener()
    pump.subscribe(listener)
    leveret.publish(body="0")
    assert listener.next() == b"0"

    leveret.reset()
    leveret.publish(body="1")

    assert listener.next() == b"1"


def test_a_stream_ends_when_the_broker_stops(leveret: Broker) -> None:
    pump, listener = EventPump(leveret._engine), Listener()
    pump.subscribe(listener)

    leveret.stop()

    assert listener.next() == b"the end"


class StoppingTurns(Turns):
    """Turns of a loop that stops as soon as the pump has looked at them."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._turn_count = 0
        self._stop: Callable[[], None] | None = stop
        super().__init__()

    @property
    def count(self) -> int:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()
        return self._turn_count

    @count.setter
    def count(self, count: int) -> None:
        self._turn_count = count


def test_a_stream_ends_when_the_broker_stops_before_the_pump_waits(leveret: Broker) -> None:
    pump, listener, loop = EventPump(leveret._engine), Listener(), leveret._engine.loop
    loop.turns = StoppingTurns(leveret.stop)

    pump.subscribe(listener)

    assert listener.next() == b"the end"
