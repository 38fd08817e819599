"""The tests of the service pika_shop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from shop import Shop

TEA = {"sku": "tea-1", "quantity": 2, "price": "4.50"}
CUP = {"sku": "cup-9", "quantity": 1, "price": "12.00", "gift": True}


@pytest.fixture
def shop(leveret) -> Iterator[Shop]:
    leveret.declare_exchange("orders", "topic", durable=True)
    leveret.declare_queue("seen")
    leveret.bind_queue("seen", "orders", "#")
    shop = Shop(leveret.url)
    yield shop
    shop.close()


@pytest.mark.parametrize("currency", ["EUR", "USD"])
@pytest.mark.parametrize("count", [1, 3])
def test_an_order_is_announced(leveret, shop: Shop, currency: str, count: int) -> None:
    for _ in range(count):
        shop.order([TEA, CUP], currency=currency)

    leveret.assert_published("orders", routing_key="order.created", times=count)


def test_a_coupon_is_announced_with_the_order(leveret, shop: Shop) -> None:
    shop.order([TEA], coupon="SPRING")

    leveret.assert_published("orders", json_contains={"coupon": "SPRING"})


def test_a_paid_order_is_announced(leveret, shop: Shop) -> None:
    shop.pay(shop.order([TEA]), "9.00")

    leveret.assert_published("orders", routing_key="order.paid", times=1)


@pytest.mark.parametrize("reason", ["changed_mind", "too_late", "fraud"])
def test_a_cancelled_order_is_announced_with_its_reason(leveret, shop: Shop, reason: str) -> None:
    shop.cancel(shop.order([CUP]), reason)

    leveret.assert_published("orders", routing_key="order.cancelled", json_contains={"reason": reason})
