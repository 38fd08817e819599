"""A Celery worker in a thread of the test, which ends when its block does.

The loop of such a worker sleeps until a message arrives. Celery asks it to stop by setting a flag, which the loop reads
when it wakes up. So a timer wakes it, and no message is needed, even if the broker cannot be reached any more.

In the first tenth of a second after it has connected, a worker drops the error of a lost connection (`_quick_drain` in
celery/worker/loops.py, seen in Celery 5.3 to 5.7), and then waits on a closed socket. The timer raises such an error
again, so the worker always connects anew.

Import this module only in suites that use Celery.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from celery import bootsteps
from celery.contrib.testing.worker import start_worker

_WAKE_UP_EVERY_S: Final = 0.1


@contextmanager
def running_worker(app: Any, **options: Any) -> Iterator[Any]:
    """Run a worker of a Celery app in a thread for the time of a block.

    `options` are those of `celery.contrib.testing.worker.start_worker`; by default it does not send a ping to itself.
    Raises RuntimeError if the worker has not ended 10 s after the block, because a task is still running
    (`shutdown_timeout=` changes this).
    """
    app.steps["consumer"].add(_WakeUp)
    try:
        with start_worker(app, **{"perform_ping_check": False, **options}) as worker:
            yield worker
    finally:
        app.steps["consumer"].discard(_WakeUp)


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
