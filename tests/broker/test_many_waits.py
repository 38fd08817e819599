"""Many waits at the same time: what they cost does not depend on how much happens."""

from __future__ import annotations

import threading

from leveret import Broker
from leveret.clocks import SystemClock
from leveret.engine.engine import REST_US

REAL = SystemClock()
WAITS = 20
# Twenty threads beside ten other processes get little of it.
PATIENCE_S = 300


class Waits:
    """Threads that wait for something that has not happened yet, and count how often they look."""

    def __init__(self, broker: Broker, count: int) -> None:
        self._engine = broker._engine
        self.look_count = 0
        # Set when there were as many looks as there are threads.
        self.have_looked = threading.Event()
        self.is_over = False
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._wait) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _wait(self) -> None:
        assert self._engine.wait_until(self._look, PATIENCE_S)

    def _look(self) -> bool:
        with self._lock:
            self.look_count += 1
            if self.look_count == len(self._threads):
                self.have_looked.set()
        return self.is_over

    def end(self) -> None:
        self.is_over = True
        self._engine.loop.wake()
        for thread in self._threads:
            thread.join()


def test_waits_look_some_hundred_times_a_second_together_however_much_happens(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    waits = Waits(leveret, WAITS)
    assert waits.have_looked.wait(PATIENCE_S)
    started_at, before = REAL.now(), waits.look_count

    for _ in range(500):
        leveret.publish("", "orders")
    looks, span_us = waits.look_count - before, REAL.now() - started_at
    waits.end()

    # Each may look once before its first rest, and once after its last.
    assert looks <= WAITS * (2 + span_us / ((WAITS - 1) * REST_US))
