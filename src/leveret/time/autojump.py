"""Autojump: whenever the broker and its clients have nothing to do, time jumps to the next deadline.

A thread of its own watches the broker. It jumps one deadline at a time, and only if all is still: the broker is idle,
no client has been active for a moment, and no thread of this process or a client's is at work, including the test's. So
while a test waits, in any call, time can jump. When the test goes on to its next line, time is where it was.

Autojump never jumps to ticks that set themselves again. An endless loop, such as a message that waits, fails and waits
again, ends it after `limit` jumps with an error that names the loop.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from leveret.clocks import SystemClock
from leveret.engine.engine import Engine
from leveret.observe.texts.state import why_not_idle
from leveret.server import native, threads
from leveret.time.endless import endless
from leveret.time.stillness import Stillness

_REAL: Final = SystemClock()
# The longest wait for something to happen. A broker that stops wakes all waiting threads.
_LONG_S: Final = 3600.0

# How often clients were active, the test called, and time jumped.
Sign = tuple[int, int, int]


class Autojump(AbstractContextManager["Autojump"]):
    """What `clock.autojump` returns. It is on until `stop`, or until the end of its `with` block.

    The block leaves the clock held or running, as it was before. It raises EndlessTimeError if that ended autojump
    early.
    """

    def __init__(self, engine: Engine, *, limit: int, settle: float, while_held: bool) -> None:
        """Create an autojump that is off until `start`."""
        self._engine = engine
        self._limit = limit
        self._settle_us = round(settle * 1_000_000)
        self._while_held = while_held
        self._was_held = engine.clock.is_held
        self._is_on = False
        self._started_at = 0
        # How often time has jumped.
        self.jump_count = 0

    def start(self) -> None:
        """Hold time and begin to jump."""
        self._engine.ask(self._hold)
        native.start_new_thread(self._run, ())

    def _hold(self) -> None:
        self._engine.clock.hold()
        self._started_at = self._engine.clock.now()
        self._is_on = True

    @property
    def is_on(self) -> bool:
        """Whether it still jumps."""
        return self._is_on and self._engine.loop.is_running and self._engine.clock.is_held

    def stop(self) -> None:
        """Stop jumping. Time stays held."""
        self._is_on = False
        self._engine.loop.wake()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.stop()
        if not self._was_held:
            self._engine.ask(self._engine.clock.release)
        if error is None:
            self._engine.raise_time_error()

    def _run(self) -> None:
        threads.register_thread()
        try:
            self._jump()
        except Exception as error:
            self._engine.node.internal_errors.append(error)
        finally:
            threads.unregister_thread()

    def _jump(self) -> None:
        loop, stillness = self._engine.loop, Stillness(self._engine)
        seen: Sign | None = None
        # Since when only a thread at work has prevented a jump.
        idle_since = 0
        while self.is_on:
            count, sign = loop.ask(self._look)
            if sign is None:
                self._await_change(count)
                continue
            if sign != seen:
                seen, idle_since = sign, _REAL.now()
            if not stillness.are_clients_at_work() or _REAL.now() - idle_since > self._settle_us:
                loop.ask(lambda: self._jump_unless_changed(sign))  # noqa: B023

    def _look(self) -> tuple[int, Sign | None]:
        """Return the number of the turn, and the last sign of life if a jump is possible. Call it under the lock."""
        engine = self._engine
        # In most turns of most tests there is no timer, and then it costs nothing to know that.
        is_possible = engine.node.timers.next_event_at() is not None and self._is_idle()
        sign = (engine.loop.arrival_count, engine.call_count, self.jump_count)
        return engine.loop.turns.count, sign if is_possible else None

    def _is_idle(self) -> bool:
        """Return whether the broker is idle, whatever clients hold if that is allowed."""
        is_done = self._while_held or not why_not_idle(self._engine.node)
        return is_done and not self._engine.unread_by_peers() and not self._engine.awake

    def _await_change(self, count: int) -> None:
        """Wait until a jump may have become possible. This needs no barrier."""
        engine = self._engine
        while self.is_on:
            engine.loop.turns.wait_beyond(count, _LONG_S)
            with engine.lock:
                count, sign = self._look()
            if sign is not None:
                return

    def _jump_unless_changed(self, sign: Sign) -> None:
        """Jump unless there was another sign of life meanwhile. Call it on the loop's thread, behind the barrier."""
        engine = self._engine
        if not self.is_on or self._look()[1] != sign:
            return
        if self.jump_count >= self._limit:
            self._give_up()
            return
        self.jump_count += 1
        at = engine.node.timers.next_event_at()
        assert at is not None
        engine.clock.jump(max(at, engine.clock.now()))
        engine.node.advance(engine.clock.now(), engine.wall.now())

    def _give_up(self) -> None:
        self._is_on = False
        engine = self._engine
        engine.time_error = endless(
            engine, f"autojump has jumped {self.jump_count} times", engine.clock.now() - self._started_at
        )
