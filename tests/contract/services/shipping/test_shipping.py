"""The tests of the shipping service."""

import threading

import pytest
from kombu.utils.limits import TokenBucket
from shipping import Shipping

PARCEL = {
    "parcel_id": "p-1",
    "packed_by": "Eve",
    "items": [{"sku": "tea", "grams": 250, "count": 2, "shelf": "A7"}],
    "address": {
        "name": "Ada",
        "company": "Analytical Engines",
        "street": "Main St 1",
        "zip": "10115",
        "city": "Berlin",
        "phone": "030",
    },
    "express": True,
}


@pytest.fixture
def shipping(leveret):
    service = Shipping(leveret.url)
    service.restart_limit = TokenBucket(100)
    thread = threading.Thread(target=service.run, kwargs={"safety_interval": 0.01})
    thread.start()
    leveret.wait_for_consumer("shipping.packed")
    yield service
    service.should_stop = True
    thread.join()


def test_a_parcel_is_booked(leveret, shipping):
    leveret.publish("shop", "order.packed", json=PARCEL)

    leveret.assert_acked("shipping.packed", timeout=5)
    assert shipping.labels == {"p-1": "Analytical Engines\nAda\nMain St 1\n10115 Berlin"}
    leveret.assert_published(
        "shop", routing_key="parcel.booked", json={"parcel_id": "p-1", "service": "express", "grams": 500}
    )
