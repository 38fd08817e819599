"""leveret where pytest-rabbitmq would start a RabbitMQ: its fixtures and factories, with no server installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from pytest_leveret.standins import rabbitmqctl
from pytest_leveret.standins.server import AMQP_PORT, Fleet, StandIn


def stand_in(fleet: Fleet) -> Callable[[], None]:
    """Stand in for the processes of pytest-rabbitmq, and return what ends that."""
    from pytest_rabbitmq.factories.executor import RabbitMqExecutor

    running: dict[int, StandIn] = {}

    def start(self: Any) -> Any:
        running[id(self)] = fleet.launch("rabbitmq", {}, {}, {AMQP_PORT: int(self.port)})
        return self

    def stop(self: Any, *_: object, **__: object) -> Any:
        if id(self) in running:
            running.pop(id(self)).stop()
        return self

    def rabbitctl_output(self: Any, *arguments: str) -> str:
        return rabbitmqctl.run(running[id(self)], ["rabbitmqctl", *arguments]).output

    patched = patch.multiple(
        RabbitMqExecutor,
        start=start,
        stop=stop,
        kill=stop,
        running=lambda self: id(self) in running,
        rabbitctl_output=rabbitctl_output,
    )
    patched.start()
    return patched.stop
