"""Reading a queue as a batch: what a task reads, and what it leaves in the queue, without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import InputPartition

from leveret import Broker
from leveret.spark.amqp import batch
from leveret.spark.amqp.batch import AmqpBatchReader
from leveret.spark.amqp.options import batch_read_options


def read(broker: Broker, **options: str) -> list[str]:
    reader = AmqpBatchReader(batch_read_options({"url": broker.url, "queue": "jobs", **options}), ["body"])
    (partition,) = reader.partitions()
    assert isinstance(partition, InputPartition)
    return [row["body"].decode() for rows in reader.read(partition) for row in rows.to_pylist()]


@pytest.fixture(params=["classic", "quorum"])
def broker(request: pytest.FixtureRequest, leveret: Broker) -> Broker:
    leveret.declare_queue("jobs", arguments={"x-queue-type": request.param})
    for number in range(5):
        leveret.publish("", "jobs", str(number))
    return leveret


def test_repeated_reads_lose_no_message(broker: Broker) -> None:
    # A quorum queue drops a message after 20 failed deliveries.
    for _ in range(25):
        assert read(broker) == ["0", "1", "2", "3", "4"]


def test_messages_acked_on_read_are_removed(broker: Broker) -> None:
    assert read(broker, ack="on_read", maxMessages="3") == ["0", "1", "2"]
    assert read(broker) == ["3", "4"]


def test_an_empty_queue_has_no_rows(leveret: Broker) -> None:
    leveret.declare_queue("jobs")

    assert read(leveret) == []


def test_a_read_may_exceed_the_room_of_one_consumer(leveret: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "ROWS_PER_RECORD_BATCH", 100)
    leveret.declare_queue("jobs")
    for number in range(201):
        leveret.publish("", "jobs", str(number))

    assert read(leveret) == [str(number) for number in range(201)]
    assert len(leveret.queue("jobs").ready) == 201
