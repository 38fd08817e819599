"""The promises that a delayed broker keeps: `python -m tests.flaky.promises [SEED ...]`.

Each method, reply and delivery waits up to some milliseconds, by the seed. A broker so delayed still is a RabbitMQ: the
recorded scenarios get the answers of the real server, and the suites of the clients pass. This module is also the
plugin of pytest that delays every broker of a run:

    LEVERET_DELAYS_SEED=5 python -m pytest -p tests.flaky.promises tests/clients
"""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from typing import Self

import pytest
from pytest_leveret.flaky.delays import Delays, Wait

import leveret.broker
from leveret.faults import Occasion

_SEED = "LEVERET_DELAYS_SEED"
_LONGEST_US = 6_000
# Two publishes in one piece: which is confirmed first depends on the broker taking both at once.
FIX_AN_ORDER = ("an_unroutable_publish_is_confirmed_before_an_earlier_one", "a_direct_reply_is_confirmed_at_once")
SUITES = ("tests/semantics", "tests/clients")


class DelayedBroker(leveret.broker.Broker):
    """A broker that delays everything from its start to its end."""

    def start(self) -> Self:
        super().start()
        self._dice = Random(os.environ.get(_SEED, "1"))
        self._delays = Delays(self, self._wait_of, lambda occasion: None)
        self._delays.start()
        return self

    def _wait_of(self, occasion: Occasion) -> Wait:
        # A delivery without an ack is over once it is sent, so no wait of the test would cover its way.
        has_ack = occasion.subscription is not None and not occasion.subscription.no_ack
        is_on_its_way = has_ack and self._dice.random() < 0.5
        return Wait(1 + int(_LONGEST_US * self._dice.random()), is_on_its_way=is_on_its_way)

    def stop(self) -> None:
        delays = self.__dict__.pop("_delays", None)
        if delays is not None:
            delays.stop()
        super().stop()


def pytest_configure(config: pytest.Config) -> None:
    """Let the tests of this run get delayed brokers."""
    leveret.Broker = leveret.broker.Broker = DelayedBroker


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the scenarios that fix an order that RabbitMQ does not promise."""
    left_out = [item for item in items if any(name in item.nodeid for name in FIX_AN_ORDER)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def main(seeds: list[str]) -> int:
    """Run the suites with each seed, and return how many runs failed."""
    failed = 0
    for seed in seeds:
        for suite in SUITES:
            print(f"seed {seed}, {suite}", flush=True)
            command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.flaky.promises", "--leveret-pages=off", suite]
            failed += subprocess.run(command, env={**os.environ, _SEED: seed}, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["1", "2", "3"]) > 0)
