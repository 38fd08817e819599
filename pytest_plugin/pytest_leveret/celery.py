"""A Celery worker in a thread of the test, which ends when its block does.

The loop of such a worker sleeps until a message arrives. Celery asks it to stop by setting a flag, which the loop reads
when it wakes up. So a timer wakes it, and no message is needed, even if the broker cannot be reached any more.

Import this module only in suites that use Celery.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from celery.contrib.testing.worker import start_worker, test_worker_started

_WAKE_UP_EVERY_S: Final = 0.1


@contextmanager
def running_worker(app: Any, **options: Any) -> Iterator[Any]:
    """Run a worker of a Celery app in a thread for the time of a block.

    `options` are those of `celery.contrib.testing.worker.start_worker`; by default it does not send a ping to itself.
    Raises RuntimeError if the worker has not ended 10 s after the block, because a task is still running
    (`shutdown_timeout=` changes this).
    """

    def wake_up(sender: Any, consumer: Any, **_: Any) -> None:
        # Celery sends this signal again after each new connection, which has removed the timer.
        # Without a hub, the loop looks at the flag every two seconds.
        if sender is app and consumer.hub is not None:
            consumer.hub.call_repeatedly(_WAKE_UP_EVERY_S, _nothing)

    test_worker_started.connect(wake_up)
    try:
        with start_worker(app, **{"perform_ping_check": False, **options}) as worker:
            yield worker
    finally:
        test_worker_started.disconnect(wake_up)


def _nothing() -> None:
    pass
