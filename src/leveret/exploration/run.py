"""One run of a scenario under a schedule: a fresh broker, the scenario on a thread of its own, and what came of it.

The thread is what lets a scenario that hangs end: its broker is stopped, so that clients give up, a coroutine is
cancelled, and a thread that waits even so is left behind.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from leveret.broker import Broker
from leveret.engine.harness import Harness
from leveret.exploration.judgement import confirmed_messages, lost_messages
from leveret.exploration.kinds import Kind
from leveret.exploration.logs import kept_logs
from leveret.exploration.schedule import Schedule
from leveret.exploration.step import Seen
from leveret.exploration.watcher import Watcher
from leveret.observe.callers import is_at_prompt, standing_line

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from logging import LogRecord

    from leveret.engine.broker_options import BrokerOptions
    from leveret.trace.events import RawEvent

Scenario = Callable[[Broker], object]

# How long a scenario that is told to end may take for it.
_GRACE_S: Final = 2.0


@dataclass(slots=True)
class Run:
    """This is what came of one run."""

    schedule: Schedule
    seen: list[Seen] = field(default_factory=list)
    # Faults whose step never came.
    missing: list[str] = field(default_factory=list)
    # What the scenario raised.
    error: BaseException | None = None
    # Why it was ended: it hung.
    hang: str | None = None
    # What the built-in judgement found.
    losses: list[str] = field(default_factory=list)
    # What ended other threads of the scenario.
    thread_errors: list[str] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)
    raw_events: list[RawEvent] = field(default_factory=list)
    # The broker's state when a scenario hung.
    state: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether the scenario, or the judgement, says that something is wrong."""
        return self.error is not None or self.hang is not None or bool(self.losses)

    def look_at(self, broker: Broker, watcher: Watcher) -> None:
        """Take from a broker that has stopped what there is to know of the run."""
        engine = broker._engine
        self.seen, self.missing = watcher.seen, [str(placement) for placement in watcher.missing]
        self.raw_events = engine.recorder.raw()
        if engine.recorder.is_on and not engine.recorder.has_dropped:
            confirmed = confirmed_messages(self.raw_events, watcher.untold)
            self.losses = lost_messages(self.raw_events, engine.node, confirmed)
        errors = Harness(broker).take_internal_errors()
        if errors and self.error is None:
            self.error = errors[0]


class Stage:
    """This runs a scenario under one schedule after the other."""

    def __init__(self, scenario: Scenario, kinds: Mapping[str, Kind], *, limit: float, options: BrokerOptions) -> None:
        """`limit` is in seconds of real time for each run; `options` are the broker's."""
        self._scenario: Final = scenario
        self._kinds: Final = kinds
        self._limit: Final = limit
        self._options: Final = options

    def __call__(self, schedule: Schedule) -> Run:
        """Run it once."""
        run = Run(schedule)
        broker = Broker(**self._options).start()
        try:
            watcher = Watcher(broker, schedule, self._kinds)
            watcher.watch()
            is_plain = not schedule.placements
            with nullcontext() if is_plain else _quiet(run):
                self._play(broker, watcher, run)
        finally:
            broker.stop()
        run.look_at(broker, watcher)
        if is_plain and not run.has_failed:
            broker.check()
        return run

    def _play(self, broker: Broker, watcher: Watcher, run: Run) -> None:
        actor = Actor(self._scenario, broker)
        actor.start()
        if not actor.wait(self._limit):
            watcher.end()
            run.hang = hang_text(actor.ident, self._limit)
            run.state = Harness(broker).report()
            broker.stop()
            actor.end()
            if not actor.wait(_GRACE_S):
                run.hang += "; it did not end when its broker stopped, and was left behind"
            return
        run.error = actor.error
        Harness(broker).settle()
        watcher.end()


class Actor:
    """This is a scenario on a thread of its own."""

    def __init__(self, scenario: Scenario, broker: Broker) -> None:
        self._scenario: Final = scenario
        self._broker: Final = broker
        self._done: Final = threading.Event()
        context = contextvars.copy_context()
        self._thread: Final = threading.Thread(target=context.run, args=(self._act,), daemon=True, name="scenario")
        self.error: BaseException | None = None
        # What cancels a coroutine that runs.
        self._cancel: Callable[[], object] | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def ident(self) -> int:
        """The thread's number."""
        return self._thread.ident or 0

    def wait(self, seconds: float) -> bool:
        """Wait until it is over, at most so long unless somebody debugs; whether it is over."""
        while not self._done.wait(seconds):
            if not is_at_prompt(self.ident):
                return False
        return True

    def end(self) -> None:
        """Have a coroutine end; what blocks ends by its clients."""
        if self._cancel is not None:
            self._cancel()

    def _act(self) -> None:
        try:
            if inspect.iscoroutinefunction(self._scenario):
                self._act_in_loop()
            else:
                outcome = self._scenario(self._broker)
                if inspect.isawaitable(outcome):
                    raise TypeError("the scenario returned something to await: give a coroutine function itself")
        except BaseException as error:
            self.error = error
        finally:
            self._done.set()

    def _act_in_loop(self) -> None:
        import asyncio

        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            task = loop.create_task(cast("Coroutine[object, None, object]", self._scenario(self._broker)))
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
            try:
                loop.run_until_complete(task)
            finally:
                self._cancel = None


def hang_text(thread: int, limit: float) -> str:
    """That a scenario did not end within `limit` seconds, and where its thread stands."""
    line = standing_line(thread)
    return f"it did not end within {limit:g} s: it waited {'at ' + line if line else 'in no line of yours'}"


@contextmanager
def _quiet(run: Run) -> Iterator[None]:
    """Keep what is logged and what ends other threads: of interest is only what the reported run has to say."""
    before = threading.excepthook

    def keep(arguments: threading.ExceptHookArgs) -> None:
        name = arguments.thread.name if arguments.thread is not None else "a thread"
        text = "".join(traceback.format_exception_only(arguments.exc_type, arguments.exc_value)).strip()
        run.thread_errors.append(f"{name} ended with {text}")

    threading.excepthook = keep
    try:
        with kept_logs(run.logs):
            yield
    finally:
        if threading.excepthook is keep:
            threading.excepthook = before
