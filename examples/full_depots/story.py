"""ten tests begin with 200 queues and 10,000 messages, which are built once and restored from memory for each test"""

from __future__ import annotations

import time
from collections.abc import Callable

from examples.full_depots.test_dispatcher import PARCELS, TOWNS, fill_depots
from leveret import Broker

TEST_COUNT = 10


def tell() -> None:
    """Begin ten times with full depots, each time filled anew, and from what was filled once."""
    with Broker() as broker:
        anew = _seconds(lambda: _fill_anew(broker))
        once = anew / TEST_COUNT
        state = broker.snapshot()
        restoring = _seconds(lambda: broker.restore(state))
        count = sum(len(queue.ready) for queue in broker.queues)
        assert count == len(TOWNS) * len(PARCELS)
    print(f"  {len(TOWNS)} depots with {count} parcels, for {TEST_COUNT} tests")
    print(f"  filled anew for each test: {anew:.2f} s of CPU time")
    print(f"  filled once and restored:  {once + restoring:.2f} s, of which restoring took {restoring:.2f} s")


def _fill_anew(broker: Broker) -> None:
    broker.reset()
    fill_depots(broker)


def _seconds(begin: Callable[[], object]) -> float:
    started = time.process_time()
    for _ in range(TEST_COUNT):
        begin()
    return time.process_time() - started
