"""The tests of the billing service."""

import threading

import pytest
from billing import serve

ORDER = {
    "order_id": "o-1",
    "placed_at": "2026-03-01T10:00:00Z",
    "customer": {"id": 7, "name": "Ada ", "country": "DE"},
    "lines": [{"sku": "tea", "quantity": 2, "price": 5.25}, {"sku": "cup", "quantity": 1, "price": 9.5}],
    "discount_percent": 10,
    "purchase_order": "4711",
    "channel": "web",
}


@pytest.fixture(autouse=True)
def billing(leveret):
    stopping = threading.Event()
    thread = threading.Thread(target=serve, args=(leveret.url, stopping))
    thread.start()
    leveret.wait_for_consumer("billing.orders")
    yield
    stopping.set()
    thread.join()


def test_an_order_becomes_an_invoice(leveret):
    leveret.publish("shop", "order.created", json=ORDER)

    leveret.assert_acked("billing.orders", timeout=5)
    leveret.assert_ready(
        "invoices",
        json={"order_id": "o-1", "recipient": "Ada", "net": "18.00", "gross": "21.42", "reference": "PO 4711"},
    )


def test_an_order_of_an_unknown_country_fails(leveret):
    leveret.publish("shop", "order.created", json=ORDER | {"customer": {"name": "Ada", "country": "XX"}})

    leveret.assert_ready("billing.failed", timeout=5)
