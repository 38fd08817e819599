"""The worker in a thread of its own, on the broker of each test."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest
from shipping import CarrierError, Worker, place_order

from leveret import Broker


class Carrier:
    """A stand-in for the carrier: it refuses `refusals_left` times, and records what it took."""

    def __init__(self) -> None:
        self.refusals_left = 0
        self.shipped: list[int] = []

    def ship(self, number: int) -> None:
        if self.refusals_left:
            self.refusals_left -= 1
            raise CarrierError("the van is full")
        self.shipped.append(number)


@pytest.fixture
def carrier() -> Carrier:
    return Carrier()


@pytest.fixture(autouse=True)
def worker(leveret: Broker, carrier: Carrier) -> Iterator[Worker]:
    worker = Worker(leveret.url, carrier.ship)
    thread = Thread(target=worker.run)
    thread.start()
    yield worker
    worker.stop()
    thread.join()


def test_an_order_is_shipped_once(leveret: Broker, carrier: Carrier) -> None:
    place_order(leveret.url, 7)
    leveret.wait_idle()

    assert carrier.shipped == [7]
    leveret.assert_acked("orders", json={"id": 7}, times=1)


def test_an_order_that_does_not_fit_is_shipped_half_a_minute_later(leveret: Broker, carrier: Carrier) -> None:
    carrier.refusals_left = 1
    leveret.clock.hold()

    place_order(leveret.url, 7)
    leveret.assert_published("", routing_key="orders.retry", timeout=5)
    leveret.clock.advance(29)
    assert carrier.shipped == []
    leveret.clock.advance(1)

    assert carrier.shipped == [7]
    leveret.assert_dead_lettered("orders.retry", to="orders", reason="expired", times=1)


def test_an_order_that_cannot_be_read_is_set_aside(leveret: Broker, carrier: Carrier) -> None:
    leveret.publish("", "orders", b"{broken")
    place_order(leveret.url, 8)
    leveret.wait_idle()

    assert carrier.shipped == [8]
    leveret.assert_dead_lettered("orders", to="orders.failed", reason="rejected", body=b"{broken")


def test_an_order_survives_the_loss_of_the_connection_before_its_ack(leveret: Broker, carrier: Carrier) -> None:
    leveret.faults.reset_peer(on="basic.ack")

    place_order(leveret.url, 7)
    leveret.assert_acked("orders", json={"id": 7}, redelivered=True, timeout=5)

    # RabbitMQ delivers at least once: only the carrier can know that it has order 7 already.
    assert carrier.shipped == [7, 7]


def test_the_worker_consumes_again_after_a_restart(leveret: Broker, carrier: Carrier) -> None:
    leveret.restart()
    leveret.wait_for_consumer("orders")

    place_order(leveret.url, 9)
    leveret.wait_idle()

    assert carrier.shipped == [9]
