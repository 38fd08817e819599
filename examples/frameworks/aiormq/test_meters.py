"""The collector as a task on the event loop of each test; the broker has a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from meters import Collector, DatabaseBusyError, send_reading

from leveret import Broker


class Database:
    """A stand-in for the database: it is busy `busy_count` times, and keeps the rest."""

    def __init__(self) -> None:
        self.busy_count = 0
        self.readings: list[tuple[str, float]] = []

    async def store(self, meter: str, value: float) -> None:
        if self.busy_count:
            self.busy_count -= 1
            raise DatabaseBusyError
        self.readings.append((meter, value))


@pytest.fixture
def database() -> Database:
    return Database()


@pytest_asyncio.fixture
async def collector(leveret: Broker, database: Database) -> AsyncIterator[Collector]:
    collector = Collector(leveret.url, database.store)
    task = asyncio.create_task(collector.run())
    await leveret.aio.wait_for_consumer("readings", timeout=5)
    yield collector
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.usefixtures("collector")
async def test_a_reading_is_stored_once(leveret: Broker, database: Database) -> None:
    await send_reading(leveret.url, "m1", 20.5)
    await leveret.aio.wait_idle()

    assert database.readings == [("m1", 20.5)]
    leveret.assert_acked("readings", json={"meter": "m1", "value": 20.5}, times=1)


@pytest.mark.usefixtures("collector")
async def test_a_reading_is_stored_ten_seconds_later_if_the_database_is_busy(
    leveret: Broker, database: Database
) -> None:
    database.busy_count = 1
    leveret.clock.hold()

    await send_reading(leveret.url, "m1", 20.5)
    await leveret.aio.assert_published("", routing_key="readings.later", timeout=5)
    await leveret.aio.clock.advance(9)
    assert database.readings == []
    await leveret.aio.clock.advance(1)

    assert database.readings == [("m1", 20.5)]


async def test_a_reading_expires_if_no_collector_comes_within_an_hour(leveret: Broker) -> None:
    leveret.declare_queue("readings")

    await send_reading(leveret.url, "m1", 20.5)
    await leveret.aio.clock.advance(hours=1)

    leveret.assert_dropped("readings", reason="expired", json_contains={"meter": "m1"})


@pytest.mark.usefixtures("collector")
async def test_a_reading_without_a_value_is_set_aside(leveret: Broker, database: Database) -> None:
    leveret.publish("", "readings", json={"meter": "m1"})
    await send_reading(leveret.url, "m2", 3)
    await leveret.aio.wait_idle()

    assert database.readings == [("m2", 3)]
    leveret.assert_dead_lettered("readings", to="readings.failed", reason="rejected", json={"meter": "m1"})


@pytest.mark.usefixtures("collector")
async def test_the_collector_connects_again_after_a_reset(leveret: Broker, database: Database) -> None:
    leveret.faults.reset_peer(on="basic.ack")

    await send_reading(leveret.url, "m1", 20.5)
    await leveret.aio.assert_acked("readings", redelivered=True, timeout=5)

    # RabbitMQ delivers at least once, so the database gets a reading again whose ack was lost.
    assert database.readings == [("m1", 20.5), ("m1", 20.5)]
