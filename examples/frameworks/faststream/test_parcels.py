"""The service on a broker: pytest sets AMQP_URL, and each test starts the service anew."""

from __future__ import annotations

from collections.abc import AsyncIterator

import parcels
import pytest
import pytest_asyncio
from faststream import TestApp
from parcels import CarrierError, Order, app, broker, shop

from leveret import Broker


class FullVan(parcels.Carrier):
    """A carrier that refuses `refusals_left` times."""

    refusals_left = 0

    async def book(self, order: Order) -> str:
        if self.refusals_left:
            self.refusals_left -= 1
            raise CarrierError("the van is full")
        return await super().book(order)


@pytest.fixture(autouse=True)
def carrier(monkeypatch: pytest.MonkeyPatch) -> FullVan:
    carrier = FullVan()
    monkeypatch.setattr(parcels, "carrier", carrier)
    return carrier


@pytest_asyncio.fixture(autouse=True)
async def service(leveret_session: Broker) -> AsyncIterator[None]:
    leveret_session.reset()
    async with TestApp(app):
        yield


async def test_a_parcel_is_booked_for_an_order(leveret_session: Broker) -> None:
    leveret_session.publish("shop", "order.created", json={"id": 7, "article": "teapot"})
    await leveret_session.aio.wait_idle()

    parcel = {"order": 7, "parcel": "parcel of teapot"}
    leveret_session.assert_published("shop", routing_key="parcel.booked", json=parcel, times=1)
    leveret_session.assert_acked("orders", times=1)


async def test_an_order_with_a_misspelt_key_is_returned(leveret_session: Broker) -> None:
    await broker.publish({"id": 7, "article": "teapot"}, exchange=shop, routing_key="oder.created")

    await leveret_session.aio.assert_returned("shop", routing_key="oder.created", times=1, timeout=5)


async def test_an_order_that_does_not_fit_is_booked_a_minute_later(leveret_session: Broker, carrier: FullVan) -> None:
    carrier.refusals_left = 1
    leveret_session.clock.hold()
    leveret_session.publish("shop", "order.created", json={"id": 7, "article": "teapot"})

    await leveret_session.aio.assert_published("", routing_key="orders.retry", headers={"x-attempt": 2}, timeout=5)
    await leveret_session.aio.clock.advance(59)
    assert carrier.parcels == {}
    await leveret_session.aio.clock.advance(1)

    assert carrier.parcels == {7: "parcel of teapot"}
    leveret_session.assert_dead_lettered("orders.retry", to="orders", reason="expired", times=1)


async def test_the_third_refusal_is_the_last(leveret_session: Broker, carrier: FullVan) -> None:
    carrier.refusals_left = 3
    with leveret_session.clock.autojump():
        leveret_session.publish("shop", "order.created", json={"id": 7, "article": "teapot"})
        await leveret_session.aio.assert_dead_lettered("orders", to="orders.failed", reason="rejected", timeout=5)

    leveret_session.assert_delivered("orders", times=3)


async def test_an_invalid_order_is_set_aside(leveret_session: Broker, carrier: FullVan) -> None:
    leveret_session.publish("shop", "order.created", json={"id": "seven"})
    leveret_session.publish("shop", "order.created", json={"id": 8, "article": "cup"})
    await leveret_session.aio.wait_idle()

    leveret_session.assert_dead_lettered("orders", to="orders.failed", reason="rejected", json={"id": "seven"})
    assert carrier.parcels == {8: "parcel of cup"}


async def test_a_connection_lost_at_the_ack_books_one_parcel(leveret_session: Broker, carrier: FullVan) -> None:
    leveret_session.faults.reset_peer(on="basic.ack")
    leveret_session.publish("shop", "order.created", json={"id": 7, "article": "teapot"})

    await leveret_session.aio.assert_acked("orders", redelivered=True, timeout=10)

    # RabbitMQ delivers at least once, so the parcel is announced twice. The carrier knows the order already.
    leveret_session.assert_published("shop", routing_key="parcel.booked", times=2)
    assert carrier.parcels == {7: "parcel of teapot"}


async def test_an_article_is_weighed_on_request(leveret_session: Broker) -> None:
    reply = await broker.request("teapot", "weights", timeout=5)

    assert await reply.decode() == 1200
    await leveret_session.aio.assert_acked("weights", times=1, timeout=5)
