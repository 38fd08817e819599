"""The shop under FastAPI's TestClient: the application runs on a thread of its own, so tests are plain functions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import shop
from fastapi.testclient import TestClient

from leveret import Broker


@pytest.fixture(autouse=True)
def billing(leveret_session: Broker) -> None:
    leveret_session.reset()
    leveret_session.declare_exchange("shop", "topic")
    leveret_session.declare_queue("billing")
    leveret_session.bind_queue("billing", "shop", "order.*")


@pytest.fixture
def client(leveret_session: Broker, billing: None) -> Iterator[TestClient]:
    with TestClient(shop.app) as client:
        leveret_session.wait_for_consumer("payments", timeout=5)
        yield client


def test_an_order_is_announced(leveret_session: Broker, client: TestClient) -> None:
    response = client.post("/orders", json={"id": 7, "total": 120})

    assert response.status_code == 202
    leveret_session.assert_published("shop", routing_key="order.created", json={"id": 7, "total": 120}, times=1)
    leveret_session.assert_confirmed("shop", times=1)


def test_a_payment_arrives(leveret_session: Broker, client: TestClient) -> None:
    client.post("/orders", json={"id": 7, "total": 120})

    leveret_session.publish("", "payments", json={"order": 7})
    leveret_session.assert_acked("payments", times=1, timeout=5)

    assert client.get("/orders/7").json() == {"announced": True, "paid": True}


def test_a_payment_that_is_too_early_waits_for_its_order(leveret_session: Broker, client: TestClient) -> None:
    leveret_session.clock.hold()
    leveret_session.publish("", "payments", json={"order": 7})
    leveret_session.assert_acked("payments", timeout=5)
    client.post("/orders", json={"id": 7, "total": 120})
    assert client.get("/orders/7").json()["paid"] is False

    leveret_session.clock.advance(30)

    assert client.get("/orders/7").json()["paid"] is True
    leveret_session.assert_dead_lettered("payments.early", to="payments", reason="expired", times=1)


def test_a_payment_that_cannot_be_read_is_set_aside(leveret_session: Broker, client: TestClient) -> None:
    leveret_session.publish("", "payments", b"7 was paid")

    leveret_session.assert_dead_lettered("payments", to="payments.failed", reason="rejected", timeout=5)


def test_an_order_that_rabbitmq_refuses_is_not_announced(leveret_session: Broker, client: TestClient) -> None:
    with leveret_session.faults.nack_publishes():
        assert client.post("/orders", json={"id": 7, "total": 120}).status_code == 503
    assert client.get("/orders/7").json()["announced"] is False
    leveret_session.assert_empty("billing")

    assert client.post("/orders", json={"id": 7, "total": 120}).status_code == 202
    leveret_session.assert_nacked("shop", json={"id": 7, "total": 120}, times=1)
    assert len(leveret_session.queue("billing").ready) == 1


def test_an_order_whose_confirm_is_lost_is_announced_twice(
    leveret_session: Broker, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop, "CONFIRM_SECONDS", 0.2)
    with leveret_session.faults.withhold_confirms():
        assert client.post("/orders", json={"id": 7, "total": 120}).status_code == 503
    monkeypatch.undo()

    assert client.post("/orders", json={"id": 7, "total": 120}).status_code == 202

    # RabbitMQ had the first one. The shop cannot know that; its receivers can, by the message id.
    assert [message.message_id for message in leveret_session.queue("billing").ready] == ["order-7", "order-7"]


def test_payments_arrive_after_a_restart_of_rabbitmq(leveret_session: Broker, client: TestClient) -> None:
    client.post("/orders", json={"id": 7, "total": 120})

    leveret_session.restart()
    leveret_session.wait_for_consumer("payments", timeout=10)
    leveret_session.publish("", "payments", json={"order": 7})
    leveret_session.assert_acked("payments", timeout=5)

    assert client.get("/orders/7").json()["paid"] is True
