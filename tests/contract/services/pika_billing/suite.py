"""The tests of the service pika_billing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from billing import Billing

ORDER = {"id": "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "total": "9.00", "currency": "EUR"}


@pytest.fixture(autouse=True)
def billing(leveret) -> Iterator[Billing]:
    billing = Billing(leveret.url)
    leveret.declare_queue("invoices")
    leveret.bind_queue("invoices", "invoices", "created")
    billing.start()
    yield billing
    billing.stop()


@pytest.mark.parametrize("total", ["9.00", "0", "1200.50"])
def test_an_order_gets_an_invoice(leveret, total: str) -> None:
    leveret.publish("orders", "order.created", json={**ORDER, "total": total}, headers={"tenant": "acme"})

    leveret.assert_published("invoices", json_contains={"order": ORDER["id"]}, timeout=5)
    leveret.assert_acked("billing", times=1, timeout=5)


@pytest.mark.parametrize("body", [b"no order", b'{"id": 3}', b'{"id": "x", "total": "much"}'])
def test_what_is_no_order_is_set_aside(leveret, body: bytes) -> None:
    leveret.publish("orders", "order.created", body)

    leveret.assert_dead_lettered("billing", to="billing.failed", timeout=5)


def test_orders_get_their_invoices_in_order(leveret) -> None:
    for _ in range(3):
        leveret.publish("orders", "order.created", json=ORDER, headers={"tenant": "acme"})

    leveret.assert_acked("billing", times=3, timeout=5)
