"""Forty recorded runs of a small shop, with real brokers and clients.

Its tests do the same in each run, but for what four commits have changed: `REDELIVERED_FROM` asks for each order four
times instead of once, `DEAD_LETTERED_FROM` rejects an invoice, and from `LEAKS_FROM` on, the audit forgets one message
more in each run. `test_race` is flaky: it fails in about a quarter of the runs, and leaves or redelivers something.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pika
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker
from leveret.engine.harness import Harness
from leveret.trace.run import close_files

RUNS: Final = 40
LEAKS_FROM: Final = 10
REDELIVERED_FROM: Final = 17
DEAD_LETTERED_FROM: Final = 25

_AUDITED: Final = 40
_dice: Final = random.Random(7)


def commit(run: int) -> str:
    """Return the commit of a run; the first run has the number 1."""
    return sha1(f"run {run}".encode(), usedforsecurity=False).hexdigest()


def record(folder: str | Path) -> None:
    """Record all runs into this folder."""
    for run in range(1, RUNS + 1):
        # Each run is one of its own, also in a worker of pytest-xdist.
        own = {"GITHUB_SHA": commit(run), "GITHUB_REF_NAME": "main", "PYTEST_XDIST_TESTRUNUID": ""}
        with patch.dict("os.environ", own):
            for test in (_orders, _invoices, _audit, _race):
                _play(folder, run, test)
            close_files()


def _play(folder: str | Path, run: int, test: Callable[[int, BlockingChannel], bool]) -> None:
    name = f"tests/test_shop.py::test{test.__name__}"
    # On a busy machine, messages wait longer in some runs than in others.
    with Broker(trace_dir=folder) as broker, broker.clock.hold():
        harness = Harness(broker)
        harness.begin_test(name)
        assert harness.trace_file is not None
        harness.trace_file.begin_test(name)
        broker.declare_queue("orders.dead")
        broker.declare_queue("orders")
        broker.declare_queue("audit")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dead"}
        broker.declare_queue("invoices", arguments=arguments)
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            has_passed = test(run, connection.channel())
        outcome = "passed" if has_passed else "failed"
        harness.end_test(name, outcome, 0.1)
        harness.trace_file.end_test(name, {"outcome": outcome, "duration": 0.1})


def _orders(run: int, channel: BlockingChannel) -> bool:
    for number in range(5):
        channel.basic_publish("", "orders", f"order {number}".encode())
        for _ in range(4 if run >= REDELIVERED_FROM else 1):
            channel.basic_nack(_take(channel, "orders"))
        channel.basic_ack(_take(channel, "orders"))
    return True


def _invoices(run: int, channel: BlockingChannel) -> bool:
    for number in range(3):
        channel.basic_publish("", "invoices", f"invoice {number}".encode())
        if run >= DEAD_LETTERED_FROM and number == 1:
            channel.basic_reject(_take(channel, "invoices"), requeue=False)
            channel.basic_ack(_take(channel, "orders.dead"))
        else:
            channel.basic_ack(_take(channel, "invoices"))
    return True


def _audit(run: int, channel: BlockingChannel) -> bool:
    for number in range(_AUDITED):
        channel.basic_publish("", "audit", f"entry {number}".encode())
    for _ in range(_AUDITED - max(run - LEAKS_FROM + 1, 0)):
        channel.basic_ack(_take(channel, "audit"))
    return True


def _race(run: int, channel: BlockingChannel) -> bool:
    channel.basic_publish("", "orders", b"first")
    channel.basic_publish("", "orders", b"second")
    if _dice.random() < 0.3:
        channel.basic_nack(_take(channel, "orders"))
    channel.basic_ack(_take(channel, "orders"))
    if _dice.random() < 0.25:
        return False
    channel.basic_ack(_take(channel, "orders"))
    return True


def _take(channel: BlockingChannel, queue: str) -> int:
    """Return the delivery tag of the next message of a queue."""
    method, _, _ = channel.basic_get(queue)
    assert method is not None, queue
    tag: int = method.delivery_tag
    return tag
