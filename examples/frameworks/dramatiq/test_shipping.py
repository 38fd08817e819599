"""The actors, with a worker in threads of each test."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dramatiq
import pytest
import shop
import time_machine

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


@pytest.fixture
def broker(leveret_session: Broker) -> Iterator[Broker]:
    yield leveret_session
    for queue in leveret_session.queues:
        leveret_session.purge_queue(queue.name)


@pytest.fixture(autouse=True)
def worker(broker: Broker, carrier: Carrier, monkeypatch: pytest.MonkeyPatch) -> Iterator[dramatiq.Worker]:
    # How long dramatiq waits before it connects again: 3 s by default, or the variable dramatiq_restart_delay.
    monkeypatch.setattr("dramatiq.worker.CONSUMER_RESTART_DELAY_SECS", 0.05)
    worker = dramatiq.Worker(shop.broker, worker_threads=1, worker_timeout=20)
    worker.start()
    for queue in ("orders", "orders.DQ"):
        broker.wait_for_consumer(queue)
    yield worker
    worker.stop()


def test_an_order_is_shipped_once(broker: Broker, carrier: Carrier) -> None:
    shop.ship.send(7)

    broker.assert_acked("orders", json_contains={"actor_name": "ship", "args": [7]}, times=1, timeout=5)
    assert carrier.collected == [7]


def test_an_order_that_does_not_fit_is_shipped_when_the_backoff_is_over(broker: Broker, carrier: Carrier) -> None:
    carrier.refusals_left = 1
    with time_machine.travel(datetime.now(UTC)) as python:
        sent_at = datetime.now(UTC)
        shop.ship.send(7)
        delayed = broker.assert_delivered("orders.DQ", json_contains={"args": [7]}, timeout=5)
        due = datetime.fromtimestamp(delayed.json["options"]["eta"] / 1000, UTC)
        assert due - sent_at >= timedelta(minutes=5)

        python.shift(due - datetime.now(UTC))
        broker.assert_acked("orders", times=2, timeout=5)

    assert carrier.collected == [7]


def test_an_order_that_never_fits_is_set_aside_for_a_week(broker: Broker, carrier: Carrier) -> None:
    carrier.refusals_left = 100
    broker.clock.hold()
    with time_machine.travel(datetime.now(UTC)) as python:
        shop.ship.send(7)
        for tries in range(1, 4):
            broker.assert_delivered("orders.DQ", times=tries, timeout=5)
            python.shift(timedelta(days=7))
        broker.assert_dead_lettered("orders", to="orders.XQ", reason="rejected", timeout=5)

    assert carrier.refusals_left == 96
    broker.clock.advance(days=7)
    broker.assert_dropped("orders.XQ", reason="expired")


def test_an_order_that_is_not_a_number_is_set_aside_at_once(broker: Broker, carrier: Carrier) -> None:
    shop.ship.send("seven")
    shop.ship.send(8)

    broker.assert_dead_lettered("orders", to="orders.XQ", json_contains={"args": ["seven"]}, timeout=5)
    broker.assert_acked("orders", json_contains={"args": [8]}, timeout=5)
    assert carrier.collected == [8]


def test_a_message_that_dramatiq_did_not_send_is_set_aside(broker: Broker) -> None:
    broker.publish("", "orders", b"{broken")

    broker.assert_dead_lettered("orders", to="orders.XQ", reason="rejected", body=b"{broken", timeout=5)


def test_an_order_survives_the_loss_of_the_connection_before_its_ack(broker: Broker, carrier: Carrier) -> None:
    broker.faults.reset_peer(on="basic.ack")

    shop.ship.send(7)
    broker.assert_acked("orders", redelivered=True, timeout=10)

    # RabbitMQ delivers at least once: only the carrier can know that it has order 7 already.
    assert carrier.collected == [7, 7]


def test_the_worker_consumes_again_after_a_restart(broker: Broker, carrier: Carrier) -> None:
    broker.restart()

    shop.ship.send(9)

    broker.assert_acked("orders", timeout=10)
    assert carrier.collected == [9]
