"""A service that a function makes: each test has a broker of its own."""

from __future__ import annotations

from faststream import FastStream, TestApp
from faststream.rabbit import RabbitBroker, RabbitQueue

from leveret import Broker


def make_app(url: str) -> FastStream:
    """Return the service, connected to the broker at this URL once it runs."""
    broker = RabbitBroker(url)

    @broker.subscriber(RabbitQueue("orders", durable=True))
    async def book(order: dict[str, int]) -> None:
        await broker.publish({"order": order["id"]}, exchange="amq.topic", routing_key="parcel.booked")

    return FastStream(broker)


async def test_a_parcel_is_booked(leveret: Broker) -> None:
    async with TestApp(make_app(leveret.url)):
        leveret.publish("", "orders", json={"id": 7})
        await leveret.aio.assert_acked("orders", json={"id": 7}, timeout=5)

    leveret.assert_published("amq.topic", routing_key="parcel.booked", json={"order": 7}, times=1)
