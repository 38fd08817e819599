"""The tasks, with a worker on the event loop of each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
import shop
from taskiq.api import run_receiver_task
from taskiq.brokers.inmemory_broker import InmemoryResultBackend

from leveret import Broker


class Carrier:
    """A stand-in for the carrier: it refuses `refusals_left` times, and records what it took."""

    def __init__(self) -> None:
        self.refusals_left = 0
        self.collected: list[int] = []

    async def collect(self, order: int) -> str:
        if self.refusals_left:
            self.refusals_left -= 1
            raise shop.CarrierError("the van is full")
        self.collected.append(order)
        return f"T{order}"


@pytest.fixture
def carrier(monkeypatch: pytest.MonkeyPatch) -> Carrier:
    carrier = Carrier()
    monkeypatch.setattr(shop, "carrier", carrier)
    return carrier


@pytest_asyncio.fixture(autouse=True)
async def broker(leveret_session: Broker, carrier: Carrier, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """Yield the broker of the run, with the shop's worker."""
    leveret_session.reset()
    # Production keeps results elsewhere, in Redis for instance. This worker runs in the process of the test.
    monkeypatch.setattr(shop.broker, "result_backend", InmemoryResultBackend())
    shop.broker.is_worker_process = True
    await shop.broker.startup()
    worker = asyncio.create_task(run_receiver_task(shop.broker))
    await leveret_session.aio.wait_for_consumer("orders")
    yield leveret_session
    worker.cancel()
    with suppress(asyncio.CancelledError):
        await worker
    await shop.broker.shutdown()


async def test_an_order_is_shipped_once(broker: Broker, carrier: Carrier) -> None:
    shipped = await shop.ship.kiq(7)
    result = await shipped.wait_result(timeout=10)

    assert result.return_value == "T7"
    await broker.aio.assert_acked("orders", headers={"task_name": "ship"}, times=1, timeout=10)
    assert carrier.collected == [7]


async def test_an_order_that_does_not_fit_is_shipped_ten_minutes_later(broker: Broker, carrier: Carrier) -> None:
    carrier.refusals_left = 1
    broker.clock.hold()

    await shop.ship.kiq(7)
    await broker.aio.assert_published("", routing_key="orders.delay", headers={"_retries": "1"}, timeout=10)
    await broker.aio.clock.advance(minutes=9)
    assert carrier.collected == []
    await broker.aio.clock.advance(minutes=1)

    await broker.aio.assert_acked("orders", times=2, timeout=10)
    assert carrier.collected == [7]
    broker.assert_dead_lettered("orders.delay", to="orders", reason="expired", times=1)


async def test_a_short_delay_waits_behind_a_long_one(broker: Broker, carrier: Carrier) -> None:
    broker.clock.hold()
    await shop.ship.kicker().with_labels(delay=3600).kiq(1)
    await shop.ship.kicker().with_labels(delay=60).kiq(2)

    await broker.aio.clock.advance(minutes=59)
    assert carrier.collected == []
    await broker.aio.clock.advance(minutes=1)

    await broker.aio.assert_acked("orders", times=2, timeout=10)
    assert sorted(carrier.collected) == [1, 2]


async def test_an_order_that_never_fits_is_given_up_and_is_gone(broker: Broker, carrier: Carrier) -> None:
    carrier.refusals_left = 100

    with broker.clock.autojump():
        await shop.ship.kiq(7)
        await broker.aio.assert_acked("orders", times=4, timeout=10)

    assert carrier.refusals_left == 96
    assert [queue.name for queue in broker.queues if queue.ready] == []


async def test_a_message_that_is_not_a_task_is_acknowledged_and_gone(broker: Broker) -> None:
    broker.publish("taskiq", "orders", b"{broken")

    await broker.aio.assert_acked("orders", body=b"{broken", timeout=10)
    broker.assert_empty("orders.failed")


async def test_an_order_survives_the_loss_of_the_connection_before_its_ack(broker: Broker, carrier: Carrier) -> None:
    broker.faults.reset_peer(on="basic.ack")

    await shop.ship.kiq(7)
    await broker.aio.assert_acked("orders", redelivered=True, timeout=10)

    # RabbitMQ delivers at least once: only the carrier can know that it has order 7 already.
    assert carrier.collected == [7, 7]
