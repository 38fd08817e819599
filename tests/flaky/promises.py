"""A plugin of pytest that delays what every broker of a run sends and gets, as the flake doctor does.

A delayed broker still is a RabbitMQ, so suites that do not fix an order between connections pass on it:

    LEVERET_DELAYS_SEED=5 python -m pytest -p tests.flaky.promises tests/clients
"""

from __future__ import annotations

import os
from typing import Self

import pytest
from pytest_leveret.flaky.play import Play

import leveret.broker

_SEED = int(os.environ.get("LEVERET_DELAYS_SEED", "1"))


class DelayedBroker(leveret.broker.Broker):
    """A broker that delays from its start to its end."""

    def start(self) -> Self:
        super().start()
        self._play = Play(_SEED)
        self._play.watch(self)
        self._play.begin()
        return self

    def stop(self) -> None:
        play = self.__dict__.pop("_play", None)
        if play is not None:
            play.end()
        super().stop()


def pytest_configure(config: pytest.Config) -> None:
    """Let the tests of this run get delayed brokers."""
    leveret.Broker = leveret.broker.Broker = DelayedBroker
