"""Retries after 1 minute, 10 minutes and 1 hour, tested in milliseconds with real clients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise

import pytest

from leveret import Broker
from tests.time.workers import FAILED, JOBS, LADDER_MS, aio_pika_worker, kombu_worker, pika_worker

Work = Callable[[str], AbstractContextManager[None]]
threaded = pytest.mark.parametrize("work", [pika_worker, kombu_worker])

MINUTE = 60_000_000


def spans_between_tries(broker: Broker) -> list[int]:
    """Return the times from each try to the next, in microseconds of the broker's clock."""
    tries = [event.at for event in broker.events.query("delivered", queue=JOBS)]
    return [after - before for before, after in pairwise(tries)]


@threaded
def test_a_ladder_is_climbed_by_advancing_time(leveret: Broker, work: Work) -> None:
    with work(leveret.url):
        leveret.clock.hold()
        leveret.publish("", JOBS, json={"id": 7})
        leveret.clock.advance(hours=2)

        leveret.assert_published("", routing_key=FAILED, json={"id": 7}, times=1)
        assert spans_between_tries(leveret) == [MINUTE, 10 * MINUTE, 60 * MINUTE]


@threaded
def test_a_ladder_is_climbed_while_a_test_waits(leveret: Broker, work: Work) -> None:
    with work(leveret.url), leveret.clock.autojump():
        leveret.publish("", JOBS, json={"id": 7})

        leveret.assert_published("", routing_key=FAILED, timeout=5)

        assert spans_between_tries(leveret) == [MINUTE, 10 * MINUTE, 60 * MINUTE]


@threaded
def test_each_step_of_a_ladder_can_be_looked_at(leveret: Broker, work: Work) -> None:
    with work(leveret.url):
        leveret.clock.hold()
        leveret.publish("", JOBS, json={"id": 7})

        for name, ttl_ms in LADDER_MS.items():
            leveret.clock.advance(ms=ttl_ms - 1)
            assert len(leveret.queue(name).ready) == 1
            leveret.clock.advance(ms=1)
            leveret.assert_empty(name)

        assert len(leveret.queue(FAILED).ready) == 1


@pytest.mark.asyncio
async def test_a_ladder_is_climbed_beside_a_worker_on_the_same_event_loop(leveret: Broker) -> None:
    async with await aio_pika_worker(leveret.url):
        leveret.clock.hold()
        leveret.publish("", JOBS, json={"id": 7})
        await leveret.aio.clock.advance(hours=2)

        leveret.assert_published("", routing_key=FAILED, json={"id": 7}, times=1)
        assert spans_between_tries(leveret) == [MINUTE, 10 * MINUTE, 60 * MINUTE]


@pytest.mark.asyncio
async def test_a_ladder_is_climbed_while_a_coroutine_waits(leveret: Broker) -> None:
    async with await aio_pika_worker(leveret.url):
        with leveret.clock.autojump():
            leveret.publish("", JOBS, json={"id": 7})

            await leveret.aio.assert_published("", routing_key=FAILED, timeout=5)

            assert spans_between_tries(leveret) == [MINUTE, 10 * MINUTE, 60 * MINUTE]
