"""Writing a DataFrame to a broker, as a batch or as a stream: every row one message, published by its task.

A task that returns has the broker's confirm for each of its messages; one that fails is repeated by Spark, and so are
its messages. They have the same message ids at every repetition: query/batch/partition/number.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from leveret.errors import OptionError
from leveret.spark.amqp.contents import ContentEncoder, check_columns
from leveret.spark.amqp.options import WriteOptions
from leveret.spark.amqp.publishing import Publisher

if TYPE_CHECKING:
    from pyarrow import RecordBatch


@dataclass
class Published(WriterCommitMessage):
    """What a task tells the driver: the number of messages it has published."""

    count: int


def check_writing(schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
    """Find what is wrong before any task starts; raises OptionError."""
    if overwrite:
        raise OptionError(
            "a broker cannot take messages back, so there is no overwriting: write with mode('append'), "
            "stream with outputMode('append') or ('update')"
        )
    check_columns(schema, options)


class AmqpWriter(DataSourceArrowWriter):
    """A batch of messages."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        # Made once, on the driver: the same in every attempt of a task.
        self.name = uuid.uuid4().hex

    def write(self, iterator: Iterator[RecordBatch]) -> Published:
        """In a task."""
        return publish(iterator, self.options, self.name)


class AmqpStreamWriter(DataSourceStreamArrowWriter):
    """A micro-batch of messages."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[RecordBatch]) -> Published:
        """In a task."""
        return publish(iterator, self.options, "stream")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Everything is confirmed already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was published stays published; its repetition has the same message ids."""


def publish(batches: Iterator[RecordBatch], options: WriteOptions, name: str) -> Published:
    """Publish rows and wait for the confirms; raises PublishError, LinkError, OptionError."""
    # With it comes pika, which the planning of a write does not need.
    from leveret.spark.amqp.link import Link

    link = Link(options.endpoint)
    try:
        publisher = Publisher(link, options)
        encoder = ContentEncoder(options, link.frame_max, _id_prefix(name))
        for batch in batches:
            for frames in encoder.encode(batch):
                publisher.publish(frames)
        return Published(publisher.finish())
    finally:
        link.close()


def _id_prefix(name: str) -> str:
    """Query, batch and partition: a micro-batch has Spark's own, which survive a restart."""
    context = TaskContext.get()
    if context is None:
        return f"{name}/0/0"
    query = context.getLocalProperty("sql.streaming.queryId") or name
    batch = context.getLocalProperty("streaming.sql.batchId") or "0"
    return f"{query}/{batch}/{context.partitionId()}"
