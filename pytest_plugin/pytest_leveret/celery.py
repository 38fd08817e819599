"""A Celery worker, and Celery's beat, in a thread of the test that ends when its block does.

The loop of such a worker sleeps until a message arrives. Celery asks it to stop by setting a flag, which the loop reads
when it wakes up. So a timer wakes it, and no message is needed, even if the broker cannot be reached any more.

In the first tenth of a second after it has connected, a worker drops the error of a lost connection (`_quick_drain` in
celery/worker/loops.py, seen in Celery 5.3 to 5.7), and then waits on a closed socket. The timer raises such an error
again, so the worker always connects anew.

A worker takes a task with an ETA or a countdown at once, and holds it until it is due. It counts by the monotonic clock
of the machine. If `running_worker` gets a broker, the broker's clock counts instead.

Beat sleeps until a task of its schedule is due. `running_beat` lets it sleep by the broker's clock.

Import this module only in suites that use Celery.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any, Final

from celery import bootsteps
from celery.beat import Scheduler, Service
from celery.contrib.testing.worker import start_worker

from leveret import Broker
from leveret.time.naps import Sleeper, nap

_WAKE_UP_EVERY_S: Final = 0.1
# How long a task with an ETA may be late in real time.
_LOOK_EVERY_S: Final = 0.01
# How long beat sleeps at most, by the broker's clock, and how long its end takes at most, in real time.
_LONGEST_SLEEP_S: Final = 86_400
_END_S: Final = 10
# The time of beat's current tick, in the thread of that beat.
_TICK: Final = threading.local()


@contextmanager
def running_worker(app: Any, *, broker: Broker | None = None, **options: Any) -> Iterator[Any]:
    """Run a worker of a Celery app in a thread for the time of a block.

    With `broker`, the clock of that broker decides when a task with an ETA or a countdown is due. It is also the app's
    own clock during the block, from which the app makes the ETA of a countdown or a retry. So `broker.clock` moves such
    a task. `options` are those of `celery.contrib.testing.worker.start_worker`; by default the worker does not send a
    ping to itself. Raises RuntimeError if the worker has not ended 10 s after the block, because a task is still
    running (`shutdown_timeout=` changes this).
    """
    steps: list[tuple[Any, type]] = [(app.steps["consumer"], _WakeUp)]
    clock = nullcontext() if broker is None else _clock_of(app, broker)
    if broker is not None:
        due: deque[Callable[[], None]] = deque()
        timer = type("_Timer", (_BrokersTimer,), {"broker": broker, "due": due})
        steps += [(app.steps["worker"], timer), (app.steps["consumer"], type("_Due", (_RunDue,), {"due": due}))]
    try:
        for blueprint, step in steps:
            blueprint.add(step)
        with clock, start_worker(app, **{"perform_ping_check": False, **options}) as worker:
            yield worker
    finally:
        for blueprint, step in steps:
            blueprint.discard(step)


@contextmanager
def running_beat(app: Any, *, broker: Broker, **options: Any) -> Iterator[Service]:
    """Run the beat of a Celery app in a thread for the time of a block, by the clock of a broker.

    `broker.clock.advance` and autojump stop at each time at which a task of `beat_schedule` is due, and go on once beat
    has sent it. `options` are those of `celery.beat.Service`. By default the schedule is kept in memory, so no file
    remembers what an earlier test has sent; `scheduler_cls=` names another scheduler. Reset the broker before the
    block: within it, a reset forgets when beat is to wake up. Raises what ended beat before its block, and RuntimeError
    if it has not ended 10 s after the block.
    """
    with _clock_of(app, broker):
        service = Service(app, **{"scheduler_cls": Scheduler, "max_interval": _LONGEST_SLEEP_S, **options})
        scheduler, when = service.scheduler, service.scheduler._when
        # Celery wakes 10 ms before a task is due, and then looks again and again. A clock that is held would not go on.
        scheduler.adjust = lambda span, drift=None: span
        # Sums of floats for one instant differ in the last digits.
        scheduler._when = lambda entry, span, **more: round(when(entry, span, **more), 6)
        sleeper, errors = Sleeper(broker._engine, "Celery's beat"), list[Exception]()
        thread = threading.Thread(target=_tick, args=(scheduler, sleeper, broker, errors), name="beat", daemon=True)
        thread.start()
        try:
            yield service
        finally:
            sleeper.end()
            thread.join(_END_S)
            if thread.is_alive():
                raise RuntimeError(f"Celery's beat has not ended within {_END_S} s after its block")
            service.sync()
        if errors and broker._engine.loop.is_running:
            raise errors[0]


def _tick(scheduler: Scheduler, sleeper: Sleeper, broker: Broker, errors: list[Exception]) -> None:
    try:
        while not sleeper.has_ended:
            # Celery adds what is left until a task is due to a later look at the clock. If the clock ran on in between,
            # the task would be late, and a clock that is held at its time would never reach it.
            _TICK.now = broker._engine.clock.now()
            span = scheduler.tick()
            if span and span > 0:
                sleeper.doze_until(_TICK.now + round(span * 1_000_000))
    except Exception as error:
        errors.append(error)
        sleeper.end()


@contextmanager
def _clock_of(app: Any, broker: Broker) -> Iterator[None]:
    """Give an app the broker's clock, to the microsecond, for the time of a block."""
    before = vars(app).get("now")
    now = broker._engine.clock.now
    app.now = lambda: datetime.fromtimestamp((getattr(_TICK, "now", 0) or now()) / 1_000_000, app.timezone)
    try:
        yield
    finally:
        del app.now
        if before is not None:
            app.now = before


class _WakeUp(bootsteps.StartStopStep):  # type: ignore[misc]
    """The timer that wakes the loop. Celery starts it with each connection, because it drops the timers of the last."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        # Without a hub, the loop wakes up every two seconds and drops no error.
        if consumer.hub is not None:
            consumer.hub.call_repeatedly(_WAKE_UP_EVERY_S, _raise_if_lost, consumer)


def _raise_if_lost(consumer: Any) -> None:
    if consumer.connection is not None and not consumer.connection.connected:
        raise ConnectionResetError("the connection to the broker is closed")


class _BrokersTimer(bootsteps.Step):  # type: ignore[misc]
    """The timer of a worker, with the broker's clock for tasks that are due later."""

    requires = ("celery.worker.components:Timer",)
    broker: Broker
    due: deque[Callable[[], None]]

    def include_if(self, worker: Any) -> bool:
        return bool(worker.use_eventloop)

    def create(self, worker: Any) -> None:
        # Celery's strategies call this for a task with an ETA, and nothing else does.
        worker.timer.call_at = partial(self._call_at, worker.timer)

    def _call_at(self, timer: Any, _: float, act: Any, args: Any = (), **__: Any) -> Any:
        request, entry = args[0], timer.Entry(act, args)
        channel = request.message.channel
        port = channel.connection.sock.getsockname()[1]
        wake = partial(self.due.append, partial(_run, timer, entry))
        nap(self.broker._engine, port, channel.channel_id, request.message.delivery_tag, request.eta.timestamp(), wake)
        return entry


class _RunDue(bootsteps.StartStopStep):  # type: ignore[misc]
    """The look for tasks that are due, in the thread of the worker."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    due: deque[Callable[[], None]]

    def start(self, consumer: Any) -> None:
        if consumer.hub is not None:
            consumer.hub.call_repeatedly(_LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        while self.due:
            self.due.popleft()()


def _run(timer: Any, entry: Any) -> None:
    if not entry.canceled:
        timer.apply_entry(entry)
