"""The worker on four servers that pip installed: each test has its own broker, database, Redis and bucket."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import psycopg
import pytest
import redis

from examples.without_docker.billing import Billing
from examples.without_docker.servers import bucket, database, postgres_server, redis_server
from leveret import Broker


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def database_url(postgres: str) -> Iterator[str]:
    with database(postgres) as url:
        yield url


@pytest.fixture
def redis_url() -> Iterator[str]:
    with redis_server() as url:
        yield url


@pytest.fixture
def documents() -> Iterator[Any]:
    with bucket("documents") as documents:
        yield documents


@pytest.fixture(autouse=True)
def worker(leveret: Broker, database_url: str, redis_url: str, documents: Any) -> Iterator[None]:
    billing = Billing(amqp_url=leveret.url, database_url=database_url, redis_url=redis_url, bucket=documents.name)
    thread = Thread(target=billing.run)
    thread.start()
    yield
    billing.stop()
    thread.join()


def invoices(database_url: str) -> list[tuple[Any, ...]]:
    """Return all invoices in PostgreSQL."""
    with psycopg.connect(database_url) as connection:
        return connection.execute("SELECT order_id, total FROM invoices").fetchall()


def revenue(redis_url: str) -> int:
    """Return the revenue that Redis has counted."""
    with redis.Redis.from_url(redis_url) as client:
        return int(client.get("revenue") or 0)


def test_an_order_is_billed(leveret: Broker, database_url: str, redis_url: str, documents: Any) -> None:
    leveret.publish("", "orders", json={"id": 7, "total": 120})
    leveret.wait_idle()

    leveret.assert_published("", routing_key="invoices", json={"order": 7, "document": "invoices/7.txt"}, times=1)
    assert invoices(database_url) == [(7, 120)]
    assert revenue(redis_url) == 120
    document = documents.Object("invoices/7.txt").get()["Body"].read()
    assert document == b"Invoice for order 7: 120 EUR"


def test_an_order_whose_ack_is_lost_is_billed_once(leveret: Broker, database_url: str, redis_url: str) -> None:
    leveret.faults.reset_peer(on="basic.ack")

    leveret.publish("", "orders", json={"id": 7, "total": 120}, delivery_mode=2)
    leveret.assert_acked("orders", redelivered=True, timeout=5)

    assert invoices(database_url) == [(7, 120)]
    assert revenue(redis_url) == 120


def test_an_order_is_billed_a_minute_later_if_s3_fails(leveret: Broker, database_url: str, documents: Any) -> None:
    documents.delete()
    leveret.clock.hold()
    leveret.publish("", "orders", json={"id": 7, "total": 120})
    leveret.assert_dead_lettered("orders", to="orders.retry", reason="rejected", timeout=5)
    assert invoices(database_url) == []

    documents.create(CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    leveret.clock.advance(minutes=1)

    leveret.assert_acked("orders", timeout=5)
    assert invoices(database_url) == [(7, 120)]
