"""The clock of a broker, as a test moves it.

Time is real until it is held. When a test moves it, it goes from deadline to deadline and stops at each. After a
deadline that sent something to a client, it waits in real time until clients have reacted, so that what they do next
begins at the right instant. Only the broker's own deadlines move. Heartbeats and the limits of handshakes run on the
wall clock, unless asked for.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from leveret.clocks import SystemClock
from leveret.engine.elsewhere import warn
from leveret.engine.engine import Engine
from leveret.errors import BrokerError
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.texts.state import DeliveryKey
from leveret.time.autojump import Autojump
from leveret.time.endless import endless
from leveret.time.stillness import Newcomers, Stillness, held
from leveret.wording import span_text

# In real time: how long a step of `advance` waits for clients, and a jump of `autojump` for threads at work.
SETTLE_S: Final = 1.0
PATIENCE_S: Final = 3.0
# The number of steps of `advance` that sent something, and of jumps of `autojump`, that count as endless.
STEP_LIMIT: Final = 10_000
JUMP_LIMIT: Final = 1_000
# The units that `advance` takes, in microseconds.
_UNITS_US: Final = {
    "seconds": 1_000_000,
    "ms": 1_000,
    "minutes": 60_000_000,
    "hours": 3_600_000_000,
    "days": 86_400_000_000,
}
# The end of the year 9999, beyond which Python has no dates.
_LATEST_US: Final = 253_402_300_799_999_999
# Steps in a row that sent nothing, before other threads may use the broker again.
_SILENT_STEPS: Final = 1_000

_REAL: Final = SystemClock()


class _Seconds(float):
    """The time as a number. A call of it raises with how to read it."""

    __slots__ = ()

    # Hidden from type checkers, which refuse the call by themselves.
    if not TYPE_CHECKING:

        def __call__(self) -> float:
            raise TypeError("broker.clock.now is a number of seconds; write it without parentheses")


@checks_calls
class Clock(Hinting):
    """The type of `broker.clock`."""

    _called = "broker.clock"

    def __init__(self, engine: Engine) -> None:
        """Create the clock of that engine."""
        self._engine = engine
        self._stillness = Stillness(engine)
        # The deliveries that clients held when `advance` had waited long enough for them.
        self._kept: set[DeliveryKey] = set()

    @property
    def now(self) -> float:
        """The broker's time in seconds since the epoch."""
        return _Seconds(self._engine.clock.now() / 1_000_000)

    @property
    def is_held(self) -> bool:
        """Whether time stands still except for jumps."""
        return self._engine.clock.is_held

    def hold(self) -> AbstractContextManager[object]:
        """Stop time, and autojump, once what is due by now is done.

        The end of its `with` block lets time run again, unless it stood still before, as it does during autojump.
        """
        block = ExitStack()
        if not self.is_held:
            block.callback(self.release)
        self._end_autojump()
        self._engine.ask(self._engine.clock.hold)
        return block

    def release(self) -> None:
        """Let time run on from where it is, and end autojump."""
        self._end_autojump()
        self._engine.ask(self._engine.clock.release)

    def autojump(self, *, limit: int = JUMP_LIMIT, settle: float = PATIENCE_S, while_held: bool = False) -> Autojump:
        """Hold time and let it jump to the next deadline whenever the broker and its clients have nothing to do.

        It is on from the call until `stop()` of the returned object, or the end of its `with` block. A thread that is
        at work, here or in a client's process, delays a jump by at most `settle` seconds of real time. A message that a
        client holds prevents a jump, unless `while_held` is set. More than `limit` jumps count as an endless loop: the
        next call that waits, or the end of the block, raises EndlessTimeError.
        """
        self._end_autojump()
        if not self._engine.loop.is_running:
            raise BrokerError("autojump needs a running broker; start the broker first")
        self._engine.refuse_inline("autojump")
        autojump = Autojump(self._engine, limit=limit, settle=settle, while_held=while_held)
        self._engine.time_mover = autojump
        autojump.start()
        return autojump

    def _end_autojump(self) -> None:
        mover, self._engine.time_mover = self._engine.time_mover, None
        if mover is not None:
            mover.stop()
        self._engine.raise_time_error()

    def advance(
        self,
        seconds: float | timedelta | None = None,
        *,
        ms: float | None = None,
        minutes: float | None = None,
        hours: float | None = None,
        days: float | None = None,
        settle: float = SETTLE_S,
        heartbeats: bool = False,
        limit: int = STEP_LIMIT,
    ) -> None:
        """Hold time, end autojump, and move time on by the sum of what is given, in seconds or as a timedelta.

        First, and after each step that sent something, consumers get time to settle what they hold: `settle` seconds of
        real time for each message, or ten times as long while code of theirs visibly works or waits for something. If
        that is not enough, time moves on with a LeveretWarning. With
        `heartbeats`, silence counts too: the broker sends heartbeats, and drops clients that sent none. More than
        `limit` such steps raise EndlessTimeError. Raises TypeError if no span is given.
        """
        __tracebackhide__ = True
        self._engine.refuse_to_starve_clients()
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        given = {"seconds": seconds, "ms": ms, "minutes": minutes, "hours": hours, "days": days}
        if all(span is None for span in given.values()):
            raise TypeError("advance() needs a span: pass seconds, as in advance(30), ms=, minutes=, hours= or days=")
        exact_us = sum((span or 0) * _UNITS_US[unit] for unit, span in given.items())
        span_us = round(exact_us)
        if span_us < 0:
            raise ValueError(f"advance() by {span_us / 1_000_000:g} s would move time backwards; pass a positive span")
        if self._engine.clock.now() + span_us > _LATEST_US:
            spans = ", ".join(f"{unit}={span!r}" for unit, span in given.items() if span is not None)
            raise ValueError(f"advance({spans}) would end after the year 9999; pass a shorter span")
        self._move(span_us, settle=settle, heartbeats=heartbeats, limit=limit)

    def _move(self, span_us: int, *, settle: float, heartbeats: bool, limit: int) -> None:
        """Move time on by a span that is valid."""
        __tracebackhide__ = True
        self._end_autojump()
        target = self._engine.ask(lambda: self._hold_until(span_us))
        # Clients finish their current work before time moves. What a test has fetched by basic.get is up to the test.
        begun = self._engine.ask(lambda: Newcomers(self._engine, self._kept.union(held(self._engine, by_get=True))))
        overtaken = self._left_by(begun, settle)
        steps = Steps(self._engine, target, heartbeats=heartbeats)
        while not self._engine.ask(steps.move_on):
            if steps.newcomers is None:
                continue
            if steps.sent_count > limit:
                done_us = self._engine.clock.now() - target + span_us
                raise endless(self._engine, f"advance has sent something to clients {limit} times", done_us)
            overtaken = self._left_by(steps.newcomers, settle) or overtaken
        if overtaken is not None:
            warn(_overtaken_text(*overtaken))

    def _left_by(self, newcomers: Newcomers, settle: float) -> tuple[int, list[str]] | None:
        """Let clients react. If that took too long, return for how long and which new messages they still hold."""
        began_at = _REAL.now()
        # Clients on this thread can do nothing while it waits.
        if (
            settle <= 0
            or self._engine.loop.is_inline
            or not self._stillness.wait(newcomers.reasons, settle, newcomers.standing)
        ):
            return None
        waited_us = _REAL.now() - began_at
        texts = self._engine.ask(lambda: self._keep(newcomers))
        return (waited_us, texts) if texts else None

    def _keep(self, newcomers: Newcomers) -> list[str]:
        self._kept = set(held(self._engine))
        return newcomers.held_texts()

    def _hold_until(self, span_us: int) -> int:
        self._engine.clock.hold()
        return self._engine.clock.now() + span_us


def _overtaken_text(waited_us: int, kept: list[str]) -> str:
    return (
        f"advance() waited {span_text(waited_us)} of real time for a client and went on without it: "
        f"{'; '.join(kept)}. What it does with the message comes too late. Pass settle= to wait longer, or settle=0 if "
        "clients hold messages on purpose"
    )


class Steps:
    """The steps of the clock to a target, one after the other, on the loop's thread."""

    def __init__(self, engine: Engine, target: int, *, heartbeats: bool) -> None:
        self._engine = engine
        self._target = target
        self._heartbeats = heartbeats
        # What clients received in the last step; None if it sent nothing.
        self.newcomers: Newcomers | None = None
        # The number of steps that sent something.
        self.sent_count = 0

    def move_on(self) -> bool:
        """Move to the first deadline that sends something or ends a nap. Return True if there is none."""
        # Another thread may have released the clock since the last step. If it ran, each reading would be another.
        self._engine.clock.hold()
        self.newcomers = None
        before = Newcomers(self._engine)
        wake_count = self._engine.wake_count
        for _ in range(_SILENT_STEPS):
            at = self._next_instant(self._target)
            self._move(at)
            if self._engine.loop.dirty or self._engine.wake_count != wake_count:
                self.newcomers = before
                self.sent_count += 1
                return False
            if at >= self._target:
                return True
        return False

    def _move(self, at: int) -> None:
        engine = self._engine
        if self._heartbeats:
            engine.wall.skip(at - engine.clock.now())
        engine.clock.jump(at)
        engine.node.advance(at, engine.wall.now())

    def _next_instant(self, latest: int) -> int:
        engine = self._engine
        now = engine.clock.now()
        instants = [latest]
        deadline = engine.node.next_deadline()
        if deadline is not None:
            instants.append(deadline)
        if self._heartbeats:
            liveness_deadline = engine.node.next_liveness_deadline()
            if liveness_deadline is not None:
                instants.append(now + liveness_deadline - engine.wall.now())
        return max(now, min(instants))
