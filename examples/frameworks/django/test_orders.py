"""The view and the worker. Most tests run the worker in their own thread, and so in their database transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.test import Client
from orders.carrier import CarrierError, carrier
from orders.models import Order
from pika.exceptions import AMQPConnectionError, AMQPError

from leveret import Broker

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def broker(leveret_session: Broker) -> Broker:
    leveret_session.reset()
    return leveret_session


@pytest.fixture
def place(client: Client, django_capture_on_commit_callbacks: Any) -> Any:
    """Return a function that places an order, and commits as far as Django is concerned."""

    def place(number: int) -> int:
        with django_capture_on_commit_callbacks(execute=True):
            return client.post(f"/orders/{number}/").status_code

    return place


def ship_orders() -> None:
    call_command("ship_orders", "--stop-when-idle")


def test_an_order_is_placed_and_shipped(broker: Broker, place: Any) -> None:
    assert place(7) == 201
    broker.assert_published("", routing_key="orders", json={"number": 7})

    ship_orders()

    assert Order.objects.get(number=7).is_shipped
    broker.assert_acked("orders", json={"number": 7}, times=1)


def test_an_order_is_announced_after_its_commit(
    broker: Broker, client: Client, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        client.post("/orders/7/")
        broker.assert_not_published("")

    broker.assert_published("", routing_key="orders", times=1)


def test_an_order_that_is_rolled_back_is_not_announced(broker: Broker, place: Any) -> None:
    assert place(7) == 201
    assert place(7) == 409

    broker.assert_published("", routing_key="orders", times=1)


def test_an_order_that_does_not_fit_is_shipped_ten_minutes_later(
    broker: Broker, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(number: int) -> None:
        raise CarrierError("the van is full")

    broker.clock.hold()
    place(7)
    with monkeypatch.context() as today:
        today.setattr(carrier, "collect", refuse)
        ship_orders()

    broker.clock.advance(minutes=9)
    ship_orders()
    assert not Order.objects.get(number=7).is_shipped
    broker.clock.advance(minutes=1)
    ship_orders()

    assert Order.objects.get(number=7).is_shipped
    broker.assert_dead_lettered("orders.retry", to="orders", reason="expired", times=1)


def test_a_message_without_an_order_is_set_aside(broker: Broker, place: Any) -> None:
    place(8)
    broker.publish("", "orders", json={"number": 404})
    broker.publish("", "orders", b"{broken")

    ship_orders()

    broker.assert_dead_lettered("orders", to="orders.failed", reason="rejected", times=2)
    assert Order.objects.get(number=8).is_shipped


def test_an_order_is_announced_although_the_connection_breaks(broker: Broker, place: Any) -> None:
    broker.faults.reset_peer(on="basic.publish")

    assert place(7) == 201

    broker.assert_confirmed("", routing_key="orders", json={"number": 7})


def test_an_order_is_shipped_once_although_its_ack_is_lost(
    broker: Broker, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[int] = []
    monkeypatch.setattr(carrier, "collect", collected.append)
    place(7)
    broker.faults.reset_peer(on="basic.ack")

    with pytest.raises(AMQPConnectionError):
        ship_orders()
    ship_orders()

    broker.assert_acked("orders", json={"number": 7}, redelivered=True)
    assert collected == [7]


@pytest.fixture
def worker(broker: Broker, transactional_db: None) -> Iterator[None]:
    """Run the command as in production, in a thread, until the broker closes its connection."""

    def run() -> None:
        with suppress(AMQPError):
            call_command("ship_orders")
        connections.close_all()

    thread = Thread(target=run)
    thread.start()
    broker.wait_for_consumer("orders", timeout=5)
    yield
    broker.reset()
    thread.join()


@pytest.mark.django_db(transaction=True)
def test_the_unchanged_worker_ships_what_the_view_commits(broker: Broker, worker: None, client: Client) -> None:
    assert client.post("/orders/7/").status_code == 201

    broker.assert_acked("orders", json={"number": 7}, times=1, timeout=5)
    assert Order.objects.get(number=7).is_shipped
