"""Clocks: real ones that stay real, and ones a test moves."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from leveret import clocks
from leveret.clocks import HoldableClock, SystemClock

REAL_DATE = 1_700_000_000_000_000


def spin_until_it_moves(clock: SystemClock) -> int:
    start = clock.now()
    while clock.now() == start:
        pass
    return clock.now() - start


def test_the_system_clock_counts_microseconds_since_the_epoch() -> None:
    assert abs(SystemClock().now() / 1_000_000 - time.time()) < 5


def test_a_thread_that_loses_its_turn_between_two_reads_does_not_shift_the_date(monkeypatch) -> None:
    class BusyMachine:
        now_ns, reads = 0, 0

        def perf_counter_ns(self) -> int:
            self.now_ns += 50_000_000 if self.reads in (0, 1) else 100
            self.reads += 1
            return self.now_ns

        def time_ns(self) -> int:
            return REAL_DATE * 1000 + self.now_ns

        thread_time_ns = perf_counter_ns

    monkeypatch.setattr(clocks, "unpatched", lambda _name: BusyMachine())

    assert abs(clocks._RealTime().zero_ns - REAL_DATE * 1000) < 1000


def test_the_system_clock_runs_on_when_freezegun_stops_time() -> None:
    freezegun = pytest.importorskip("freezegun")

    with freezegun.freeze_time("2001-01-01"):
        assert spin_until_it_moves(SystemClock()) > 0
        assert SystemClock().now() > REAL_DATE


def test_the_system_clock_runs_on_when_time_machine_stops_time() -> None:
    time_machine = pytest.importorskip("time_machine")

    with time_machine.travel("2001-01-01", tick=False):
        assert spin_until_it_moves(SystemClock()) > 0
        assert SystemClock().now() > REAL_DATE


IMPORTED_LATE = """
import {module}
with {freeze}:
    from leveret.clocks import SystemClock
    start = SystemClock().now()
    while SystemClock().now() == start:
        pass
print("good")
"""


@pytest.mark.parametrize(
    ("module", "freeze"),
    [
        ("freezegun", "freezegun.freeze_time('2001-01-01')"),
        ("time_machine", "time_machine.travel('2001-01-01', tick=False)"),
    ],
)
def test_the_system_clock_runs_when_it_was_imported_while_time_stood_still(module: str, freeze: str) -> None:
    pytest.importorskip(module)

    code = IMPORTED_LATE.format(module=module, freeze=freeze)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=os.environ)

    assert done.stdout == "good\n", done.stderr


def stopped() -> HoldableClock:
    clock = HoldableClock(SystemClock())
    clock.hold()
    return clock


def test_a_clock_refuses_to_go_backwards() -> None:
    clock = stopped()
    before = clock.now()
    clock.skip(5)
    assert clock.now() == before + 5

    with pytest.raises(ValueError, match="backwards"):
        clock.jump(before + 4)


def test_a_held_clock_stands_still_and_runs_on_from_there() -> None:
    source = stopped()
    clock, began_at = HoldableClock(source), source.now()
    source.skip(10)
    clock.hold()
    source.skip(500)
    assert clock.now() == began_at + 10

    clock.jump(began_at + 9_000)
    clock.release()
    source.skip(7)

    assert clock.now() == began_at + 9_007


def test_holding_twice_and_releasing_twice_change_nothing() -> None:
    source = stopped()
    clock, began_at = HoldableClock(source), source.now()
    clock.release()
    clock.hold()
    source.skip(10)
    clock.hold()
    assert clock.now() == began_at
    clock.release()
    clock.release()

    assert clock.now() == began_at
