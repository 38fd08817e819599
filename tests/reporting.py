"""What a worker of pytest-xdist reports of a test, in one message instead of six.

execnet writes and reads a message value by value, in Python, and each wakes two threads of the process that reads it.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController

# What is sent when the test is done. All else is sent at once: that it is done, or what ends the worker.
_KEPT: Final = ("logstart", "testreport", "warning_recorded", "logfinish")


def send_once_a_test(config: pytest.Config) -> None:
    """Let this worker send one message for each test."""
    worker: Any = next(plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent"))
    events: list[tuple[str, dict[str, object]]] = []

    def sendevent(name: str, **values: object) -> None:
        events.append((name, values))
        if name not in _KEPT:
            worker.channel.send(marshal.dumps(events))
            events.clear()

    worker.sendevent = sendevent


def read_all_at_once(node: WorkerController) -> None:
    """Let the controller take such messages from a worker, and those that it sent before."""
    process: Callable[[Any], None] = node.process_from_remote

    def process_all(message: object) -> None:
        for event in marshal.loads(message) if isinstance(message, bytes) else [message]:
            process(event)

    node.process_from_remote = process_all  # type: ignore[method-assign]
