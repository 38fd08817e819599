"""Autojump: whenever nobody has anything to do, time leaps to the next deadline.

A thread of its own watches the broker. It leaps one deadline at a time, and only from stillness: the broker is idle, no
client has been heard for a moment, and no thread of this process or a client's is at work, that of the test included.
So a test that waits, in whatever call, lets time leap, and one that goes on to its next line finds time where it was.

Ticks that are set again whenever they ran are never leapt to. A loop without end, such as a message that waits, fails
and waits again for ever, ends it after `limit` leaps with an error that names the loop.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from leveret.server import native, threads
from leveret.time.endless import endless
from leveret.time.sources import SystemClock
from leveret.time.stillness import Stillness, why_not_idle_but_for

if TYPE_CHECKING:
    from leveret.engine.engine import Engine

_REAL: Final = SystemClock()
# Until something happens; a broker that has stopped wakes everyone.
_LONG_S: Final = 3600.0

# How often clients made themselves heard, the test called, and time leapt.
Sign = tuple[int, int, int]


class Autojump:
    """This is what `clock.autojump` returns: it is on until `stop`, or until the end of its `with` block.

    The block leaves the clock as it found it, held or running, and raises EndlessTimeError if that ended it early.
    """

    def __init__(self, engine: Engine, *, limit: int, settle: float, while_held: bool) -> None:
        """It leaps once `start` was called."""
        self._engine = engine
        self._limit = limit
        self._settle_us = round(settle * 1_000_000)
        self._while_held = while_held
        self._was_held = engine.clock.is_held
        self._is_on = False
        self._started_at = 0
        # How often it has leapt.
        self.leap_count = 0

    def start(self) -> None:
        """This holds time and begins to leap."""
        self._engine.ask(self._hold)
        native.start_new_thread(self._run, ())

    def _hold(self) -> None:
        self._engine.clock.hold()
        self._started_at = self._engine.clock.now()
        self._is_on = True

    @property
    def is_on(self) -> bool:
        """This says whether it still leaps."""
        return self._is_on and self._engine.loop.is_running and self._engine.clock.is_held

    def stop(self) -> None:
        """This ends it; time stays held."""
        self._is_on = False
        self._engine.loop.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if not self._was_held:
            self._engine.ask(self._engine.clock.release)
        if error is None:
            self._engine.raise_time_error()

    def _run(self) -> None:
        threads.this_is_ours()
        try:
            self._jump()
        except Exception as error:
            self._engine.node.internal_errors.append(error)
        finally:
            threads.this_ends()

    def _jump(self) -> None:
        loop, stillness = self._engine.loop, Stillness(self._engine)
        seen: Sign | None = None
        # Since when nothing but a thread at work speaks against a leap.
        idle_since = 0
        while self.is_on:
            count, sign = loop.ask(self._look)
            if sign is None:
                self._await_change(count)
                continue
            if sign != seen:
                seen, idle_since = sign, _REAL.now()
            if not stillness.is_anybody_at_work() or _REAL.now() - idle_since > self._settle_us:
                loop.ask(lambda: self._leap_unless_changed(sign))  # noqa: B023

    def _look(self) -> tuple[int, Sign | None]:
        """The number of the turn, and the last sign of life if a leap is possible; under the lock."""
        engine = self._engine
        is_possible = engine.node.timers.next_event_at() is not None and not self._reasons()
        sign = (engine.loop.arrival_count, engine.call_count, self.leap_count)
        return engine.loop.turns.count, sign if is_possible else None

    def _reasons(self) -> list[str]:
        return why_not_idle_but_for(self._engine, is_holding_fine=self._while_held)

    def _await_change(self, count: int) -> None:
        """This waits until a leap may have become possible; looks that need no barrier do."""
        engine = self._engine
        while self.is_on:
            engine.loop.turns.wait_beyond(count, _LONG_S)
            with engine.lock:
                count, sign = self._look()
            if sign is not None:
                return

    def _leap_unless_changed(self, sign: Sign) -> None:
        """This leaps unless there was another sign of life meanwhile; on the loop's thread, behind the barrier."""
        engine = self._engine
        if not self.is_on or self._look()[1] != sign:
            return
        if self.leap_count >= self._limit:
            self._give_up()
            return
        self.leap_count += 1
        at = engine.node.timers.next_event_at()
        assert at is not None
        engine.clock.jump(max(at, engine.clock.now()))
        engine.node.advance(engine.clock.now(), engine.wall.now())

    def _give_up(self) -> None:
        self._is_on = False
        engine = self._engine
        engine.time_error = endless(
            engine, f"autojump has leapt {self.leap_count} times", engine.clock.now() - self._started_at
        )
