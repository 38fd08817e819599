"""Tests of the job that make it crash at a chosen point, and check that nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leveret import Broker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'leveret[spark-local]'")

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from examples.spark_job.invoices import INVOICES, ORDERS, start

ORDER_COUNT = 25


@pytest.fixture(autouse=True)
def queues(leveret: Broker) -> None:
    leveret.declare_queue(ORDERS)
    leveret.declare_queue(INVOICES)
    for number in range(ORDER_COUNT):
        order = {"id": number, "items": [{"price": number, "count": 2}, {"price": 1, "count": 1}]}
        leveret.publish("", ORDERS, json=order, message_id=f"order-{number}")


def by_message_id(leveret: Broker) -> dict[str, Any]:
    """Return the invoices as a consumer sees them that handles each message id once."""
    return {str(message.message_id): message.json for message in leveret.queue(INVOICES).ready}


EXPECTED = {f"order-{number}": {"id": number, "total": 2 * number + 1} for number in range(ORDER_COUNT)}


def test_every_order_gets_its_invoice(spark: SparkSession, leveret: Broker, tmp_path: Path) -> None:
    start(spark, leveret.url, str(tmp_path)).awaitTermination()

    assert by_message_id(leveret) == EXPECTED
    leveret.assert_published("", routing_key=INVOICES, times=ORDER_COUNT)
    leveret.assert_empty(ORDERS)


def test_no_order_is_lost_when_the_job_crashes_in_its_second_batch(
    spark: SparkSession, leveret: Broker, tmp_path: Path
) -> None:
    # The twelfth invoice is nacked, so its task fails, and with it the job.
    leveret.faults.nack_publishes(routing_key=INVOICES, after=11, times=1)

    with pytest.raises(StreamingQueryException, match="the broker nacked"):
        start(spark, leveret.url, str(tmp_path)).awaitTermination()
    assert len(leveret.queue(ORDERS).ready) == 15
    start(spark, leveret.url, str(tmp_path)).awaitTermination()

    assert by_message_id(leveret) == EXPECTED
    leveret.assert_empty(ORDERS)


def test_no_order_is_invoiced_twice_when_the_connection_is_lost_on_the_ack(
    spark: SparkSession, leveret: Broker, tmp_path: Path
) -> None:
    leveret.faults.reset_peer(on="basic.ack", after=1)

    start(spark, leveret.url, str(tmp_path)).awaitTermination()

    leveret.assert_published("", routing_key=INVOICES, times=ORDER_COUNT)
    assert by_message_id(leveret) == EXPECTED
    leveret.assert_empty(ORDERS)
