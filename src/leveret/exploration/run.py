"""One run of a scenario under a schedule: a fresh broker, the scenario on a thread of its own, and the outcome.

The thread makes it possible to end a scenario that hangs: leveret stops its broker, so that clients give up, and
cancels its coroutine. A thread that keeps waiting is left running.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from leveret.broker import Broker
from leveret.engine.harness import Harness
from leveret.exploration.kinds import FaultMaker
from leveret.exploration.logs import buffered_logs
from leveret.exploration.losses import confirmed_messages, lost_messages
from leveret.exploration.schedule import Schedule, Seen
from leveret.exploration.watcher import Watcher
from leveret.observe.calls.errors import errors_seen
from leveret.trials.watchdog import ends_within, hang_text

if TYPE_CHECKING:
    from logging import LogRecord

    from leveret.engine.broker_options import BrokerOptions
    from leveret.trace.events import RawEvent

# A scenario that takes two arguments gets a fresh folder too.
Scenario = Callable[[Broker], object] | Callable[[Broker, Path], object]

# How many bytes to keep of the body of a publish, by its number from 0.
Cuts = Mapping[int, int]

LEFT_OUT: Final = -1
_WHOLE: Final[Cuts] = {}
# How long a scenario may take to end once its broker has stopped.
_GRACE_S: Final = 2.0


@dataclass(slots=True)
class Run:
    """The outcome of one run."""

    schedule: Schedule
    seen: list[Seen] = field(default_factory=list)
    # Faults whose step never came.
    missing: list[str] = field(default_factory=list)
    # What the scenario raised.
    error: BaseException | None = None
    # Whether the scenario skipped itself, and so shows nothing.
    is_skipped: bool = False
    # Where the scenario was waiting when it ran out of time.
    hang: str | None = None
    # What the built-in check for lost messages found.
    losses: list[str] = field(default_factory=list)
    # The exceptions that ended other threads of the scenario.
    thread_errors: list[str] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)
    raw_events: list[RawEvent] = field(default_factory=list)
    # The broker's state when the scenario hung.
    state: str = ""
    # What the scenario published with `broker.publish`: routing keys and bodies.
    published: list[tuple[str, bytes]] = field(default_factory=list)
    # How long the schedule took, with a first try whose steps differed.
    seconds: float = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether the scenario failed or hung, or messages were lost."""
        return self.error is not None or self.hang is not None or bool(self.losses)

    def collect(self, broker: Broker, watcher: Watcher) -> None:
        """Collect the outcome from a broker that has stopped, and from its watcher."""
        harness = Harness(broker)
        self.seen, self.missing = watcher.seen, [str(placement) for placement in watcher.missing]
        self.raw_events, _, are_all = harness.events_after(0)
        if are_all:
            confirmed = confirmed_messages(self.raw_events, watcher.undelivered)
            self.losses = lost_messages(self.raw_events, harness.node, confirmed)
        errors = harness.take_internal_errors()
        if errors and self.error is None:
            self.error = errors[0]


Execute = Callable[[Schedule], Run]


def attempt(execute: Execute, schedule: Schedule) -> Run:
    """Run a schedule; a second time if a step of it did not occur, because threads may have run in another order."""
    began = perf_counter()
    run = execute(schedule)
    if run.missing and not run.has_failed:
        run = execute(schedule)
    run.seconds = perf_counter() - began
    return run


class _ScenarioBroker(Broker):
    """The broker of one run. It may leave out publishes of the scenario, and keep only some bytes of others."""

    _called = "a Broker"

    cuts: Cuts
    noted: list[tuple[str, bytes]]

    def _publish(
        self, exchange: str, routing_key: str, body: bytes, properties: bytes, vhost: str, *, is_mandatory: bool
    ) -> bool:
        __tracebackhide__ = True
        kept = self.cuts.get(len(self.noted), len(body))
        self.noted.append((routing_key, body))
        if kept == LEFT_OUT:
            return True
        return super()._publish(exchange, routing_key, body[:kept], properties, vhost, is_mandatory=is_mandatory)


@dataclass(frozen=True, slots=True)
class ScenarioRunner:
    """A scenario that can be run under one schedule after another."""

    scenario: Scenario
    kinds: Mapping[str, FaultMaker]
    # In seconds of real time, for each run.
    limit: float
    # Those of the broker.
    options: BrokerOptions
    # Where each run has a folder; None for the system's place.
    folder: str | None = None

    def __call__(self, schedule: Schedule, cuts: Cuts = _WHOLE) -> Run:
        """Run the scenario once under this schedule, without the messages or bytes of `cuts`."""
        run = Run(schedule)
        broker = _ScenarioBroker(**self.options)
        broker.cuts, broker.noted = cuts, run.published
        broker.start()
        try:
            watcher = Watcher(broker, schedule, self.kinds)
            watcher.start()
            is_plain = not schedule.placements
            with nullcontext() if is_plain and not cuts else _quiet(run):
                self._play(broker, watcher, run)
        finally:
            broker.stop()
        run.collect(broker, watcher)
        if is_plain and not run.has_failed and not cuts:
            broker.check()
        return run

    def _play(self, broker: Broker, watcher: Watcher, run: Run) -> None:
        with new_folder(self.folder) as folder:
            self._play_on(ScenarioThread(_given_a_folder(self.scenario, Path(folder)), broker), broker, watcher, run)

    def _play_on(self, thread: ScenarioThread, broker: Broker, watcher: Watcher, run: Run) -> None:
        thread.start()
        if not thread.wait(self.limit):
            watcher.stop()
            run.hang = hang_text(thread.ident, self.limit)
            run.state = Harness(broker).report()
            broker.stop()
            thread.cancel()
            if not thread.wait(_GRACE_S):
                run.hang += "; it did not end when its broker stopped either, so its thread is still running"
            return
        run.error = thread.error
        Harness(broker).sync()
        watcher.stop()


def new_folder(place: str | None = None) -> TemporaryDirectory[str]:
    """Return a folder that is removed with its block."""
    return TemporaryDirectory(prefix="leveret-explore-", dir=place, ignore_cleanup_errors=True)


def _given_a_folder(scenario: Scenario, folder: Path) -> Callable[[Broker], object]:
    """Return a scenario that takes a broker only."""
    needed = [it for it in inspect.signature(scenario).parameters.values() if it.default is it.empty]
    positional = [it for it in needed if it.kind in (it.POSITIONAL_ONLY, it.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return cast("Callable[[Broker], object]", scenario)
    whole = cast("Callable[[Broker, Path], object]", scenario)
    if inspect.iscoroutinefunction(whole):

        async def awaited(broker: Broker) -> object:
            return await whole(broker, folder)

        return awaited
    return lambda broker: whole(broker, folder)


class ScenarioThread:
    """A scenario on a thread of its own."""

    def __init__(self, scenario: Callable[[Broker], object], broker: Broker) -> None:
        self._scenario: Final = scenario
        self._broker: Final = broker
        self._done: Final = threading.Event()
        context = contextvars.copy_context()
        self._thread: Final = threading.Thread(target=context.run, args=(self._act,), daemon=True, name="scenario")
        self.error: BaseException | None = None
        # Cancels the scenario while it runs as a coroutine.
        self._cancel: Callable[[], object] | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def ident(self) -> int:
        """The thread's identifier."""
        return self._thread.ident or 0

    def wait(self, seconds: float) -> bool:
        """Wait for the scenario to end, and return whether it did within this time."""
        return ends_within(self._done, self.ident, seconds)

    def cancel(self) -> None:
        """Cancel a coroutine. A function that blocks ends when its clients give up."""
        if self._cancel is not None:
            self._cancel()

    def _act(self) -> None:
        try:
            if inspect.iscoroutinefunction(self._scenario):
                self._act_in_loop()
            else:
                outcome = self._scenario(self._broker)
                if inspect.isawaitable(outcome):
                    raise TypeError(
                        f"the scenario returned an awaitable, {outcome!r}, which was not awaited; "
                        "pass the coroutine function itself"
                    )
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


@contextmanager
def _quiet(run: Run) -> Iterator[None]:
    """Collect log records and exceptions of other threads in `run`. Only those of the reported run are shown."""

    def keep(arguments: threading.ExceptHookArgs) -> None:
        name = arguments.thread.name if arguments.thread is not None else "a thread"
        text = "".join(traceback.format_exception_only(arguments.exc_type, arguments.exc_value)).strip()
        run.thread_errors.append(f"{name} ended with {text}")

    with errors_seen(None, keep), buffered_logs(run.logs):
        yield
