"""The sink: it writes a DataFrame to a broker, as a batch or as a stream. Each row becomes one message.

When a task returns, the broker has confirmed each of its messages. If a task fails, Spark repeats it, and so its
messages. A repeated message has the same message id: query/batch/partition/number.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
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
from leveret.spark.amqp.publishing import SparkPublisher

if TYPE_CHECKING:
    from pyarrow import RecordBatch


@dataclass
class PublishedCount(WriterCommitMessage):
    """A task's report to the driver: the number of messages that it published."""

    count: int


def check_writing(schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
    """Check a write before any task starts. Raises OptionError if it overwrites or if a column is wrong."""
    if overwrite:
        raise OptionError(
            "overwriting is not possible, because a broker cannot take messages back: write with mode('append'), "
            "stream with outputMode('append') or outputMode('update')"
        )
    check_columns(schema, options)


class AmqpWriter(DataSourceArrowWriter):
    """The writer of a batch of messages."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        # It is made once, on the driver, so it is the same in every attempt of a task.
        self.name = uuid.uuid4().hex

    def write(self, iterator: Iterator[RecordBatch]) -> PublishedCount:
        """Publish the rows of one partition. Spark calls this in a task."""
        return publish(iterator, self.options, self.name)


class AmqpStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a micro-batch of messages.

    A commit has nothing to do, because everything is confirmed already. What an aborted batch has published stays
    published, and repeated messages have the same message ids.
    """

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[RecordBatch]) -> PublishedCount:
        """Publish the rows of one partition. Spark calls this in a task."""
        return publish(iterator, self.options, "stream")


def publish(batches: Iterator[RecordBatch], options: WriteOptions, name: str) -> PublishedCount:
    """Publish rows and wait for the confirms. Raises PublishError, LinkError and OptionError."""
    # It imports pika, which planning a write does not need.
    from leveret.spark.amqp.link import Link

    with closing(Link(options.endpoint)) as link:
        publisher = SparkPublisher(link, options)
        encoder = ContentEncoder(options, link.frame_max, _id_prefix(name))
        for batch in batches:
            for frames in encoder.encode(batch):
                publisher.publish(frames)
        return PublishedCount(publisher.finish())


def _id_prefix(name: str) -> str:
    """Return query, batch and partition. Those of a micro-batch are Spark's and survive a restart."""
    context = TaskContext.get()
    if context is None:
        return f"{name}/0/0"
    query = context.getLocalProperty("sql.streaming.queryId") or name
    batch = context.getLocalProperty("streaming.sql.batchId") or "0"
    return f"{query}/{batch}/{context.partitionId()}"
