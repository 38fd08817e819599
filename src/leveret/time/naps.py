"""Naps: a client waits, with a message in its hands or without, and the broker's clock says for how long.

A worker such as Celery's fetches a message that is due later, and counts the time itself. If it asks the broker's clock
for a nap instead, `advance` and `autojump` stop at the end of the nap and wait until the message is settled. During the
nap the message does not keep the broker from being idle.

A scheduler such as Celery's beat holds no message. Its thread is a Sleeper, and keeps the broker from being idle while
it is awake.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from leveret.core.model.timers import Timer
from leveret.core.protocol.delivery import Delivery
from leveret.engine.engine import Engine
from leveret.observe.texts.state import all_holdings


class Sleeper:
    """A thread of the test's process that sleeps by the clock of a broker. It is awake at first."""

    def __init__(self, engine: Engine, name: str) -> None:
        """Begin awake. `name` is that of the thread in a sentence."""
        self._engine = engine
        self._reason = f"{name} is at work"
        self._alarm = threading.Event()
        self.has_ended = False
        engine.ask(partial(engine.awake.append, self._reason))

    def doze_until(self, at: int) -> None:
        """Sleep until the broker's clock has reached `at`, in microseconds, or until `end`."""
        self._alarm.clear()
        timer = self._engine.ask(partial(self._fall_asleep, at))
        if not self.has_ended:
            self._alarm.wait()
        timer.cancel()

    def end(self) -> None:
        """Wake the thread for good. It counts as asleep, whatever it does."""
        self.has_ended = True
        self._alarm.set()
        with self._engine.lock:
            self._engine.awake[:] = [reason for reason in self._engine.awake if reason is not self._reason]

    def _fall_asleep(self, at: int) -> Timer:
        if self._reason in self._engine.awake:
            self._engine.awake.remove(self._reason)
        return self._engine.node.timers.add(at, self._ring)

    def _ring(self) -> None:
        if self.has_ended:
            return
        self._engine.awake.append(self._reason)
        self._engine.wake_count += 1
        self._alarm.set()


def nap(engine: Engine, port: int, channel: int, tag: int, until: float, wake: Callable[[], None]) -> Timer:
    """Call `wake` on the loop's thread at `until`, in seconds since the epoch. `wake` must return at once.

    The delivery is that with this tag, on this channel of the client whose socket has this port.
    """
    # None if the broker has taken the delivery back meanwhile.
    delivery: Delivery | None = None

    def set_alarm() -> Timer:
        nonlocal delivery
        for it in all_holdings(engine.node):
            if (it.connection.peer[1], it.channel.number, it.delivery.tag) == (port, channel, tag):
                delivery = it.delivery
                delivery.is_postponed = True
        return engine.node.timers.add(round(until * 1_000_000), ring)

    def ring() -> None:
        if delivery is not None:
            delivery.is_postponed = False
        engine.wake_count += 1
        wake()

    return engine.ask(set_alarm)
