"""The shop and its billing, tested together: both talk to a broker, and the test asserts on that broker."""

from __future__ import annotations

import pika.exceptions
import pytest

from examples.first_test.shop import Billing, Shop
from leveret import Broker


def test_a_placed_order_gets_an_invoice(leveret: Broker) -> None:
    with Billing(leveret.url) as billing, Shop(leveret.url) as shop:
        shop.place_order(7, total=120)
        invoices = billing.write_invoices()

    assert invoices == ["Invoice for order 7: 120 EUR"]
    leveret.assert_published("orders", routing_key="order.*", json={"id": 7, "total": 120}, times=1)
    leveret.assert_acked("invoices", json={"id": 7, "total": 120})
    leveret.assert_empty("invoices")


def test_an_order_waits_until_billing_returns(leveret: Broker) -> None:
    with Billing(leveret.url):
        pass

    with Shop(leveret.url) as shop:
        shop.place_order(8, total=30)

    (waiting,) = leveret.queue("invoices").ready
    assert waiting.json == {"id": 8, "total": 30}
    assert waiting.delivery_mode == pika.DeliveryMode.Persistent.value


def test_an_order_that_reaches_no_billing_is_an_error(leveret: Broker) -> None:
    with Shop(leveret.url) as shop, pytest.raises(pika.exceptions.UnroutableError):
        shop.place_order(9, total=5)

    leveret.assert_returned("orders", json={"id": 9, "total": 5})
