"""The tasks, with a worker in a thread of each test."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import shop
from pytest_leveret.celery import running_worker

from leveret import Broker


class Carrier:
    """A stand-in for the carrier: it refuses `refusals_left` times, and records what it took."""

    def __init__(self) -> None:
        self.refusals_left = 0
        self.collected: list[int] = []

    def collect(self, order: int) -> None:
        if self.refusals_left:
            self.refusals_left -= 1
            raise shop.CarrierError("the van is full")
        self.collected.append(order)


@pytest.fixture
def carrier(monkeypatch: pytest.MonkeyPatch) -> Carrier:
    carrier = Carrier()
    monkeypatch.setattr(shop, "carrier", carrier)
    return carrier


@pytest.fixture(autouse=True)
def worker(broker: Broker, carrier: Carrier) -> Iterator[None]:
    with running_worker(shop.app):
        yield


def test_an_order_is_shipped_once(broker: Broker, carrier: Carrier) -> None:
    shop.ship.delay(7)

    broker.assert_acked("orders", headers={"task": "shop.ship"}, times=1, timeout=5)
    assert carrier.collected == [7]


def test_an_order_that_does_not_fit_is_shipped_ten_minutes_later(broker: Broker, carrier: Carrier) -> None:
    carrier.refusals_left = 1
    broker.clock.hold()

    shop.ship.delay(7)
    broker.assert_published("", routing_key="orders.retry", headers={"task": "shop.ship", "retries": 1}, timeout=5)
    broker.clock.advance(minutes=9)
    assert carrier.collected == []
    broker.clock.advance(minutes=1)

    assert carrier.collected == [7]
    broker.assert_dead_lettered("orders.retry", to="orders", reason="expired", times=1)


def test_an_order_that_never_fits_is_set_aside_after_four_tries(broker: Broker, carrier: Carrier) -> None:
    carrier.refusals_left = 100

    with broker.clock.autojump():
        shop.ship.delay(7)
        broker.assert_dead_lettered("orders", to="orders.failed", headers={"retries": 3}, timeout=5)

    assert carrier.refusals_left == 96


def test_an_order_that_is_not_a_number_is_set_aside(broker: Broker, carrier: Carrier) -> None:
    shop.ship.delay("seven")
    shop.ship.delay(8)

    broker.assert_dead_lettered(
        "orders", to="orders.failed", reason="rejected", headers={"argsrepr": "('seven',)"}, timeout=5
    )
    broker.assert_acked("orders", headers={"argsrepr": "(8,)"}, timeout=5)
    assert carrier.collected == [8]


def test_a_message_that_is_not_a_task_is_set_aside(broker: Broker) -> None:
    broker.publish("", "orders", json={"id": 7})

    broker.assert_dead_lettered("orders", to="orders.failed", reason="rejected", timeout=5)


def test_a_message_that_cannot_be_decoded_is_acknowledged_and_gone(broker: Broker) -> None:
    broker.publish("", "orders", b"{broken", content_type="application/json", content_encoding="utf-8")

    broker.assert_acked("orders", body=b"{broken", timeout=5)
    broker.assert_empty("orders.failed")


def test_an_order_survives_the_loss_of_the_connection_before_its_ack(broker: Broker, carrier: Carrier) -> None:
    broker.faults.reset_peer(on="basic.ack")

    shop.ship.delay(7)
    broker.assert_acked("orders", redelivered=True, timeout=5)

    # RabbitMQ delivers at least once: only the carrier can know that it has order 7 already.
    assert carrier.collected == [7, 7]


def test_the_worker_consumes_again_after_a_restart(broker: Broker, carrier: Carrier) -> None:
    broker.restart()
    broker.wait_for_consumer("orders", timeout=5)

    shop.ship.delay(9)

    broker.assert_acked("orders", timeout=5)
    assert carrier.collected == [9]


def test_the_worker_holds_a_reminder_until_it_is_due(broker: Broker, carrier: Carrier) -> None:
    shop.remind.apply_async((7,), countdown=3600)

    reminder = broker.assert_delivered("orders", headers={"task": "shop.remind"}, timeout=5)
    due = datetime.fromisoformat(reminder.headers["eta"])
    assert timedelta(minutes=59) < due - datetime.now(UTC) <= timedelta(hours=1)
    assert len(broker.queue("orders").unacked) == 1
