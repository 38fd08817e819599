"""A restored broker sends the bytes that it would have sent without, and it is restored fast.

Some random conversations; `python -m tests.snapshot.campaign` runs 5,000.
"""

from __future__ import annotations

import time

import pika
import pytest

from leveret import Broker
from leveret.engine.snapshots import Snapshot

from .restoring import difference_of

QUEUE_COUNT, PER_QUEUE = 100, 100


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_a_restored_broker_sends_the_bytes_of_one_that_went_on(seed: int) -> None:
    assert [text for number in range(seed, seed + 20) if (text := difference_of(number))] == []


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_ten_thousand_messages_are_restored_in_a_thirtieth_of_the_time_to_build_them(queue_type: str) -> None:
    with Broker() as broker:
        building = time.process_time()
        _build(broker, queue_type)
        building = time.process_time() - building
        state = broker.snapshot()

        restoring = min(_seconds_to_use(broker, state) for _ in range(3))

    assert restoring * 30 <= building


def _seconds_to_use(broker: Broker, state: Snapshot) -> float:
    """Return how much longer a test takes, with its strict checks at the end."""
    began = time.process_time()
    broker.restore(state)
    broker.check()
    return time.process_time() - began


def _build(broker: Broker, queue_type: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for queue in range(QUEUE_COUNT):
            channel.queue_declare(f"branch-{queue}", durable=True, arguments={"x-queue-type": queue_type})
            for order in range(PER_QUEUE):
                channel.basic_publish("", f"branch-{queue}", b"%d" % order)
        # Its answer comes after all messages.
        channel.queue_declare("branch-0", passive=True)
