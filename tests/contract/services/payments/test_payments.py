"""The tests of the payments."""

import dramatiq
import pika
import pytest
from payments import bank, broker, charge


@pytest.fixture(autouse=True)
def worker(leveret):
    broker.parameters = [pika.URLParameters(leveret.url)]
    bank.charges.clear()
    worker = dramatiq.Worker(broker, queues={"payments"}, worker_threads=1, worker_timeout=20)
    worker.start()
    leveret.wait_for_consumer("payments")
    yield
    worker.stop()
    broker.close()


def test_a_card_is_charged(leveret):
    charge.send(
        "o-1",
        {"value": 12.5, "currency": "EUR", "vat": 2.0},
        {"token": "tok-1", "brand": "visa"},
        statement="Teahouse Berlin",
    )

    leveret.assert_acked("payments", timeout=5)
    assert bank.charges == [("tok-1", 1250, "Teahouse Berlin")]
    assert leveret.assert_published("", routing_key="shop").json["kwargs"] == {"order_id": "o-1", "charge": "ch-1"}
