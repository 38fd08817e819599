"""What FastStream's TestRabbitBroker says, and what RabbitMQ does: the same scenario on both."""

from __future__ import annotations

from importlib.metadata import version

import parcels
import pytest
from faststream import TestApp
from faststream.exceptions import SubscriberNotFound
from faststream.rabbit import TestRabbitBroker
from parcels import CarrierError, Order, app, book, booked, broker, later, shop
from pydantic import ValidationError

from leveret import Broker

pytestmark = pytest.mark.skipif(
    version("faststream").startswith(("0.5.", "0.6.")), reason="compares with the TestRabbitBroker of FastStream 0.7"
)
TEAPOT = {"id": 7, "article": "teapot"}


class FullVan(parcels.Carrier):
    async def book(self, order: Order) -> str:
        raise CarrierError("the van is full")


@pytest.fixture(autouse=True)
def empty_broker(leveret_session: Broker) -> None:
    leveret_session.reset()


async def test_an_order_that_fits_is_the_same_on_both(leveret_session: Broker) -> None:
    async with TestRabbitBroker(broker):
        await broker.publish(TEAPOT, exchange=shop, routing_key="order.created")
        booked.mock.assert_called_once_with({"order": 7, "parcel": "parcel of teapot"})

    async with TestApp(app):
        await broker.publish(TEAPOT, exchange=shop, routing_key="order.created")
        await leveret_session.aio.wait_idle()
        leveret_session.assert_published("shop", json={"order": 7, "parcel": "parcel of teapot"}, times=1)


async def test_mocks_work_on_leveret_as_well(leveret_session: Broker) -> None:
    async with TestRabbitBroker(broker, with_real=True):
        await broker.publish(TEAPOT, exchange=shop, routing_key="order.created")
        await leveret_session.aio.wait_idle()
        book.mock.assert_called_once_with(TEAPOT)


async def test_an_order_that_does_not_fit_comes_back_only_from_rabbitmq(
    leveret_session: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcels, "carrier", FullVan())

    # The fake has handlers and no queues. It records that the order was put aside; nothing brings it back.
    async with TestRabbitBroker(broker):
        await broker.publish(TEAPOT, exchange=shop, routing_key="order.created")
        later.mock.assert_called_once_with(TEAPOT)
        book.mock.assert_called_once_with(TEAPOT)

    async with TestApp(app):
        with leveret_session.clock.autojump():
            await broker.publish(TEAPOT, exchange=shop, routing_key="order.created")
            await leveret_session.aio.assert_dead_lettered("orders", to="orders.failed", timeout=5)
        leveret_session.assert_dead_lettered("orders.retry", to="orders", reason="expired", times=2)


async def test_a_dead_letter(leveret_session: Broker) -> None:
    # The fake raises the handler's error at the publisher, who in production never sees it.
    async with TestRabbitBroker(broker):
        with pytest.raises(ValidationError):
            await broker.publish({"id": "seven"}, exchange=shop, routing_key="order.created")

    async with TestApp(app):
        await broker.publish({"id": "seven"}, exchange=shop, routing_key="order.created")
        await leveret_session.aio.assert_dead_lettered("orders", to="orders.failed", reason="rejected", timeout=5)


async def test_a_hash_stands_for_no_word_too(leveret_session: Broker) -> None:
    # The queue is bound with order.#, which in RabbitMQ matches order, order.created and order.created.twice.
    async with TestRabbitBroker(broker):
        with pytest.raises(SubscriberNotFound):
            await broker.publish(TEAPOT, exchange=shop, routing_key="order")

    async with TestApp(app):
        await broker.publish(TEAPOT, exchange=shop, routing_key="order")
        await leveret_session.aio.assert_acked("orders", json=TEAPOT, timeout=5)


async def test_a_key_without_a_queue(leveret_session: Broker) -> None:
    # The fake raises; RabbitMQ drops a message that is not mandatory, and the publisher does not notice.
    async with TestRabbitBroker(broker):
        with pytest.raises(SubscriberNotFound):
            await broker.publish(TEAPOT, exchange=shop, routing_key="oder.created")

    async with TestApp(app):
        await broker.publish(TEAPOT, exchange=shop, routing_key="oder.created", mandatory=False)
        leveret_session.assert_dropped("shop", routing_key="oder.created", reason="no route")
