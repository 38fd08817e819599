"""The watchdog: it ends a trial that hangs, and leaves one alone that has come so far by itself."""

from __future__ import annotations

import signal
import threading
from functools import partial

import pytest

from leveret.trials.watchdog import Watchdog, ends_within, hang_text

pytestmark = pytest.mark.timeout(120)


def hangs(thread: int, over: threading.Event) -> bool:
    return not ends_within(over, thread, 0.05)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a thread cannot be interrupted without a signal")
def test_a_trial_that_hangs_is_interrupted_and_its_line_is_named() -> None:
    said: list[str] = []
    thread = threading.get_ident()
    dog = Watchdog(partial(hangs, thread), lambda: said.append(hang_text(thread, 0.05)), (0,))

    with dog:
        threading.Event().wait(100)

    assert dog.has_bitten
    assert said[0].startswith("it did not end within 0.05 s: it was waiting at ")
    assert "test_watchdog.py" in said[0]


def test_a_trial_that_ends_once_its_broker_has_stopped_is_not_interrupted() -> None:
    stopped = threading.Event()
    dog = Watchdog(partial(hangs, threading.get_ident()), stopped.set, (100,))

    with dog:
        assert stopped.wait(100)

    assert dog.has_bitten


def test_a_trial_that_calls_the_watchdog_off_is_not_ended() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def look(over: threading.Event) -> bool:
        begun.set()
        go_on.wait(100)
        return True

    with Watchdog(look, lambda: None, (0,)) as dog:
        begun.wait(100)
        has_come_so_far = dog.call_off()
        go_on.set()

    assert has_come_so_far
    assert not dog.has_bitten
