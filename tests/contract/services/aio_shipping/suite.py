"""The tests of the service aio_shipping."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from shipping import Shipping


@pytest.fixture(autouse=True)
async def shipping(leveret) -> AsyncIterator[Shipping]:
    async with Shipping(leveret.url) as shipping:
        leveret.declare_queue("seen")
        leveret.bind_queue("seen", "parcels", "#")
        yield shipping


@pytest.mark.parametrize("country", ["DE", "FR"])
@pytest.mark.parametrize("weight", [None, 1.5, 2])
async def test_a_paid_order_becomes_a_parcel(leveret, country: str, weight: float | None) -> None:
    order = {"id": str(uuid.uuid4()), "country": country, "weight": weight}
    leveret.publish("orders", "order.paid", json=order)

    await leveret.aio.assert_acked("shipping", times=1, timeout=5)
    leveret.assert_published("parcels", json_contains={"order": order["id"]})


async def test_an_order_to_an_unknown_country_is_dropped(leveret) -> None:
    leveret.publish("orders", "order.paid", json={"id": str(uuid.uuid4()), "country": "XX"})

    await leveret.aio.assert_dropped("shipping", timeout=5)
    leveret.assert_not_published("parcels")
