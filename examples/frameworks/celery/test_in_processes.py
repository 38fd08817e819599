"""The tasks, with a worker as in production: a command line, one process that receives and one that works.

Such a worker takes a second to start and to stop, so all tests of this module share it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import dying
import pytest
import shop

from leveret import Broker

WORKER = ("celery", "--quiet", "--app", "dying", "worker", "--pool", "prefork", "--concurrency", "1")
# These listen to transient queues, which RabbitMQ 4.3 refuses.
WITHOUT = ("--without-gossip", "--without-mingle")


@pytest.fixture(scope="module")
def broker(leveret_session: Broker) -> Iterator[Broker]:
    leveret_session.reset()
    shop.declare_queues()
    with leveret_session.worker([sys.executable, "-m", *WORKER, *WITHOUT], timeout=60):
        yield leveret_session


def test_an_order_is_shipped(broker: Broker) -> None:
    shop.ship.delay(7)

    broker.assert_acked("orders", headers={"task": "shop.ship"}, times=1, timeout=30)


def test_a_task_whose_process_dies_is_delivered_again(broker: Broker) -> None:
    dying.run_out_of_memory.delay()

    broker.assert_requeued("orders", headers={"task": "dying.run_out_of_memory"}, reason="rejected", timeout=30)
    broker.assert_delivered("orders", headers={"task": "dying.run_out_of_memory"}, redelivered=True, timeout=30)
    broker.purge_queue("orders")
